"""A model behind HTTP, with Starlette: POST the pixels of a picture, be told the digit.

uvicorn starlette_service:app
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import numpy as np
from http_errors import message_of, status_of
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

import flowengine as fe

HERE = Path(__file__).resolve().parent
NAMES = (HERE / "digits.txt").read_text().split()
BLANK = np.zeros([1, 8, 8, 1], np.float32)
PATIENCE = fe.RunOptions(timeout_seconds=1.0)


@asynccontextmanager
async def lifespan(app: Starlette) -> AsyncGenerator[None, None]:
    async with await fe.anyio.load_saved_model(HERE / "keras_digits") as model:
        app.state.digits = model.signature.batched(max_rows=64)
        await app.state.digits(image=BLANK)  # plans, so that the first request need not
        yield


async def cancel_when_gone(request: Request, scope: anyio.CancelScope) -> None:
    """Cancel the scope once the client has hung up."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def classify(request: Request) -> Response:
    digits: fe.saved_model.BatchedSignature = request.app.state.digits
    pixels = await request.json()
    async with anyio.create_task_group() as group:
        group.start_soon(cancel_when_gone, request, group.cancel_scope)
        try:
            (scores,) = (await digits.call({"image": pixels}, options=PATIENCE))["scores"]
        except fe.errors.OpError as error:
            answer = JSONResponse(message_of(error), status_of(error))
        else:
            answer = JSONResponse({"digit": NAMES[scores.argmax()], "score": float(scores.max())})
        group.cancel_scope.cancel()
        return answer
    return Response(status_code=499)  # the client has gone: nobody reads this


app = Starlette(lifespan=lifespan, routes=[Route("/classify", classify, methods=["POST"])])
