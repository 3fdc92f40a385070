"""The same service in a FastAPI application, which is a Starlette application.

uvicorn fastapi_service:app
"""

from fastapi import FastAPI
from starlette_service import classify, lifespan

app = FastAPI(lifespan=lifespan)
app.add_api_route("/classify", classify, methods=["POST"], response_model=None)
