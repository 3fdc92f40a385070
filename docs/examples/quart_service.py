"""A model behind HTTP, with Quart on trio: POST the pixels of a picture, be told the digit.

hypercorn --worker-class trio quart_service:app
"""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
from http_errors import message_of, status_of
from quart import request
from quart_trio import QuartTrio

import flowengine as fe

HERE = Path(__file__).resolve().parent
NAMES = (HERE / "digits.txt").read_text().split()
BLANK = np.zeros([1, 8, 8, 1], np.float32)
PATIENCE = fe.RunOptions(timeout_seconds=1.0)

app = QuartTrio(__name__)


@app.while_serving
async def serve() -> AsyncGenerator[None, None]:
    async with await fe.saved_model.load(HERE / "keras_digits") as model:
        app.extensions["digits"] = digits = model.signature.batched(max_rows=64)
        await digits(image=BLANK)  # plans, so that the first request need not
        yield


@app.errorhandler(fe.errors.OpError)
async def refuse(error: fe.errors.OpError) -> tuple[dict[str, str], int]:
    return message_of(error), status_of(error)


@app.post("/classify")
async def classify() -> dict[str, Any]:
    digits: fe.saved_model.BatchedSignature = app.extensions["digits"]
    pixels = await request.get_json()
    (scores,) = (await digits.call({"image": pixels}, options=PATIENCE))["scores"]
    return {"digit": NAMES[scores.argmax()], "score": float(scores.max())}
