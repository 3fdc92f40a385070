"""Models behind HTTP within a FastAPI application, which has paths of its own.

uvicorn mounted_models:app
hypercorn --worker-class trio mounted_models:app
"""

from fastapi import FastAPI

import flowengine as fe

models = fe.serving.app("keras_digits")


async def hello() -> dict[str, bool]:
    """Say whether the models answer."""
    return {"ready": models.manager.is_ready}


app = FastAPI(lifespan=models.lifespan)
app.add_api_route("/hello", hello)
app.mount("/models", models)
