"""A model behind HTTP, with Quart on trio: POST the pixels of a picture, be told the digit.

hypercorn --worker-class trio quart_service:app
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

from batched import BLANK, batched
from http_errors import message_of, status_of
from quart import request
from quart_trio import QuartTrio

import flowengine as fe

NAMES = (Path(__file__).resolve().parent / "digits.txt").read_text().split()
PATIENCE = fe.RunOptions(timeout_seconds=1.0)

app = QuartTrio(__name__)


@app.while_serving
async def serve() -> AsyncGenerator[None, None]:
    async with fe.Session(batched()) as session:
        await session.run("batched:0", {"image": BLANK})  # plans, so that the first request need not
        app.extensions["flowengine"] = session
        yield


@app.errorhandler(fe.errors.OpError)
async def refuse(error: fe.errors.OpError) -> tuple[dict[str, str], int]:
    return message_of(error), status_of(error)


@app.post("/classify")
async def classify() -> dict[str, Any]:
    session: fe.Session = app.extensions["flowengine"]
    pixels = await request.get_json()
    (scores,) = await session.run("batched:0", {"image": pixels}, options=PATIENCE)
    return {"digit": NAMES[scores.argmax()], "score": float(scores.max())}
