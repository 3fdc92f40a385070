"""A model that Keras exported, as a FastAPI application.

uvicorn keras_service:app
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fastapi import FastAPI

import flowengine as fe


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncGenerator[None, None]:
    async with await fe.anyio.load_saved_model("keras_digits") as model:
        app.state.model = model
        yield


async def classify(image: list[list[float]]) -> dict[str, int]:
    rows = [[[[pixel] for pixel in row] for row in image]]  # one row, one channel
    outputs = await app.state.model(image=rows)
    return {"digit": int(outputs["scores"].argmax())}


app = FastAPI(lifespan=lifespan)
app.add_api_route("/classify", classify, methods=["POST"])
