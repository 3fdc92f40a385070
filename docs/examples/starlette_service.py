"""A model behind HTTP, with Starlette: POST the pixels of a picture, be told the digit.

uvicorn starlette_service:app
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
from batched import BLANK, batched
from http_errors import message_of, status_of
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import flowengine as fe

NAMES = (Path(__file__).resolve().parent / "digits.txt").read_text().split()
PATIENCE = fe.RunOptions(timeout_seconds=1.0)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    async with fe.anyio.Session(batched()) as session:
        await session.run("batched:0", {"image": BLANK})  # plans, so that the first request need not
        app.state.session = session
        yield


async def cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    """Cancel the scope once the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def classify(request: Request) -> Response:
    session: fe.anyio.Session = request.app.state.session
    pixels = await request.json()
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_gone, request, group.cancel_scope)
        try:
            (scores,) = await session.run("batched:0", {"image": pixels}, options=PATIENCE)
        except fe.errors.OpError as error:
            answer = JSONResponse(message_of(error), status_of(error))
        else:
            answer = JSONResponse({"digit": NAMES[scores.argmax()], "score": float(scores.max())})
        group.cancel_scope.cancel()
        return answer
    return Response(status_code=499)  # the client has gone: nobody reads this


app = Starlette(lifespan=lifespan, routes=[Route("/classify", classify, methods=["POST"])])
