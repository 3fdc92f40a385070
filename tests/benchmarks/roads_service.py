"""Requests to the tutorial's service, without a network: microseconds each, with 64 of them under way.

    PYTHON -m tests.benchmarks.roads_service        # the service of docs/examples/starlette_service.py
    PYTHON tests/benchmarks/roads_service.py PEER   # the same handler around TensorFlow, of this graph

Needs Starlette. The peer uses nothing of this project; it calls the model on threads, as a blocking call must
in an event loop. Prints a number.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from time import perf_counter
from typing import Any, Final

CLIENTS: Final = 64
_WAVES: Final = 40
_EXAMPLES: Final = Path(__file__).resolve().parents[2] / "docs" / "examples"


async def request(app: Any, body: bytes) -> dict[str, Any]:
    """POST a body to /classify, as a server hands it over, and return the answer."""
    parts: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    answer = bytearray()
    forever = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if parts:
            return parts.pop()
        await forever.wait()  # the client stays
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            assert message["status"] == 200, message
        answer.extend(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "path": "/classify",
        "raw_path": b"/classify",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "app": app,
    }
    await app(scope, receive, send)
    found: dict[str, Any] = json.loads(bytes(answer))
    return found


async def microseconds(app: Any) -> float:
    """Return the microseconds of a request: the least of the waves of `CLIENTS` requests."""
    pixels = [[[[(row * 8 + column) % 17] for column in range(8)] for row in range(8)]]
    body = json.dumps(pixels).encode()
    async with app.router.lifespan_context(app):
        await request(app, body)
        waves = []
        for _ in range(_WAVES):
            begun = perf_counter()
            async with asyncio.TaskGroup() as group:
                asked = [group.create_task(request(app, body)) for _ in range(CLIENTS)]
            waves.append((perf_counter() - begun) / CLIENTS)
            answers = {json.dumps(each.result()["digit"]) for each in asked}
            assert len(answers) == 1, answers
    return min(waves) * 1e6


def tensorflow_app() -> Any:
    """Return the same handler around TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "")
    import anyio
    import numpy as np
    import tensorflow as tf  # type: ignore[import-not-found, unused-ignore]
    from starlette.applications import Starlette  # type: ignore[import-not-found, unused-ignore]
    from starlette.responses import JSONResponse  # type: ignore[import-not-found, unused-ignore]
    from starlette.routing import Route  # type: ignore[import-not-found, unused-ignore]

    model = tf.saved_model.load(str(_EXAMPLES / "keras_digits")).signatures["serving_default"]
    names = (_EXAMPLES / "digits.txt").read_text(encoding="utf-8").split()

    async def cancel_when_gone(asked: Any, scope: Any) -> None:
        while (await asked.receive())["type"] != "http.disconnect":
            pass
        scope.cancel()

    async def classify(asked: Any) -> Any:
        pixels = np.array(await asked.json(), np.float32)
        async with anyio.create_task_group() as group:
            group.start_soon(cancel_when_gone, asked, group.cancel_scope)
            scores = await anyio.to_thread.run_sync(lambda: model(tf.constant(pixels))["scores"].numpy())
            answer = JSONResponse({"digit": names[scores.argmax()], "score": float(scores.max())})
            group.cancel_scope.cancel()
            return answer

    return Starlette(routes=[Route("/classify", classify, methods=["POST"])])


def main(peer: bool) -> None:
    """Time one of the two, and print the number."""
    if peer:
        app = tensorflow_app()
    else:
        sys.path.insert(0, str(_EXAMPLES))
        from starlette_service import app  # type: ignore[import-not-found, unused-ignore]
    print(asyncio.run(microseconds(app)))


if __name__ == "__main__":
    main(len(sys.argv) > 1)
