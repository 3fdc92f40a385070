"""The ASGI application of a server: paths to models, within limits, counted and logged."""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, Self

import trio

from flowengine.core.errors import DeadlineExceededError, InternalError, OpError
from flowengine.serving.bodies import expanded_body, received_body
from flowengine.serving.long_texts import TextThread
from flowengine.serving.metrics import ServerMetrics
from flowengine.serving.models.manager import ModelManager
from flowengine.serving.models.versions import ServedVersion
from flowengine.serving.open_inference import OpenInference
from flowengine.serving.openapi import write_openapi
from flowengine.serving.requests import (
    Answer,
    ClientGone,
    HttpRequest,
    Receive,
    RequestError,
    RequestLimits,
    Send,
    error_answer,
    send,
)
from flowengine.serving.text.reading import SLICE_BYTES
from flowengine.serving.text.values import rows_of
from flowengine.serving.trio_side import TrioSide
from flowengine.serving.v1.describing import write_metadata, write_status
from flowengine.serving.v1.examples import (
    read_examples,
    signature_for,
    write_classification,
    write_regression,
)
from flowengine.serving.v1.predicting import read_predict, write_predict
from flowengine.serving.v1.routes import ModelRoute, route, status_of
from flowengine.serving.version import server_version

logger: Final = logging.getLogger("flowengine.serving")

#: Elements of outputs that are written at once.
_ELEMENTS_AT_ONCE: Final = 2048
#: Where metrics are, as TensorFlow Serving has them.
METRICS_PATH: Final = "/monitoring/prometheus/metrics"


class ServingApplication:
    """Models behind HTTP, for uvicorn, hypercorn and any other ASGI server; `fe.serving.app` makes it.

    manager      the models
    limits       what a request may take
    drain_seconds   how long requests may go on when the server is shut down
    metrics_path    where Prometheus finds the metrics, besides `/metrics`; None for nowhere
    access_log      called with the facts of each request when it has been answered

    It speaks ASGI's lifespan: it loads the models at startup and drains at shutdown. Mounted in another
    application, whose server knows nothing of it, use it as an async context manager, or `lifespan`.
    """

    def __init__(
        self,
        manager: ModelManager,
        *,
        limits: RequestLimits | None = None,
        drain_seconds: float = 30.0,
        metrics_path: str | None = METRICS_PATH,
        access_log: Callable[[Mapping[str, Any]], None] | None = None,
    ) -> None:
        self.manager = manager
        self.limits = RequestLimits() if limits is None else limits
        self.drain_seconds = drain_seconds
        self.metrics = ServerMetrics(manager)
        self._metrics_paths = () if metrics_path is None else (metrics_path, "/metrics")
        self._access_log = access_log
        self._trio_side = TrioSide(manager.run)
        self._texts = TextThread()
        self._open_inference = OpenInference(manager, self._trio_side, self._texts, self.limits)
        manager.on_change = self.metrics.loaded

    async def __aenter__(self) -> Self:
        await self._trio_side.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._trio_side.call(self.manager.drain, self.drain_seconds)
        await self._trio_side.__aexit__(*raised)

    @asynccontextmanager
    async def lifespan(self, application: Any = None) -> AsyncGenerator[None, None]:
        """Return a context in which the models run, as frameworks want their `lifespan=`."""
        async with self:
            yield

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send_message: Send) -> None:
        if scope["type"] == "http":
            await self._answer_http(HttpRequest(scope, receive), send_message)
        elif scope["type"] == "lifespan":
            await self._run_lifespan(receive, send_message)
        else:
            await send_message({"type": "websocket.close", "code": 1003})

    async def _run_lifespan(self, receive: Receive, send_message: Send) -> None:
        await receive()
        try:
            await self.__aenter__()
        except Exception as error:
            logger.exception("the server cannot start")
            await send_message({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send_message({"type": "lifespan.startup.complete"})
        await receive()
        await self.__aexit__(None, None, None)
        await send_message({"type": "lifespan.shutdown.complete"})

    async def _answer_http(self, request: HttpRequest, send_message: Send) -> None:
        facts: dict[str, Any] = {}
        try:
            answer = await self._answer(request, facts)
        except ClientGone:
            self._log(request, 499, facts, 0)
            return
        if request.method == "HEAD":
            answer.pieces.clear()
        await send(answer, send_message)
        self._log(request, answer.status, facts, answer.size)

    async def _answer(self, request: HttpRequest, facts: dict[str, Any]) -> Answer:
        try:
            return await self._routed(request, facts)
        except RequestError as error:
            return error_answer(error.status, error.message)
        except OpError as error:
            return self._error_answer(error)
        except ClientGone:
            raise
        except Exception as error:
            logger.exception("%s %s", request.method, request.path)
            return self._error_answer(InternalError(f"the server failed ({type(error).__name__})"))

    def _error_answer(self, error: OpError) -> Answer:
        status = status_of(error)
        if error.node_name is not None:
            # What the model raises is told by its kind: its text may have paths and data of others.
            logger.warning("a request failed in the model: %s", error)
            return error_answer(status, f"the model failed ({type(error).__name__})")
        answer = error_answer(status, error.message)
        if status in (429, 503):
            answer.headers.append((b"retry-after", b"1"))
        return answer

    async def _routed(self, request: HttpRequest, facts: dict[str, Any]) -> Answer:
        method, path = request.method, request.path
        reads = method in ("GET", "HEAD")
        if path.startswith("/v1/"):
            asked = route("GET" if reads else method, path)
            facts.update(model=asked.model, method=asked.what)
            if reads:
                described: Answer = await self._trio_side.call(self._describe, asked)
                return described
            return await self._asked(request, asked, facts)
        if path == "/v2" or path.startswith("/v2/"):
            return await self._open_inference.answer(request, facts)
        if reads and path == "/openapi.json":
            return Answer(200, [await self._trio_side.call(self._described, request.prefix)])
        if reads and path == "/healthz":
            return Answer(200, [b"{}\n"])
        if reads and path == "/readyz":
            ready = self.manager.is_ready
            return Answer(200 if ready else 503, [b'{"ready": true}\n' if ready else b'{"ready": false}\n'])
        if reads and path in self._metrics_paths:
            text = await self._trio_side.call(self._metrics_text)
            return Answer(200, [text], b"text/plain; version=0.0.4; charset=utf-8")
        return error_answer(
            404, f"there is nothing at {path[:200]}: models are at /v1/models/NAME and /v2/models/NAME"
        )

    async def _described(self, prefix: str) -> bytes:
        models = [
            (name, model.available[-1].signatures)
            for name, model in sorted(self.manager.models.items())
            if model.available
        ]
        return write_openapi(models, prefix=prefix, version=server_version())

    async def _metrics_text(self) -> bytes:
        return self.metrics.text()

    async def _describe(self, asked: ModelRoute) -> Answer:
        if asked.what == "metadata":
            with self.manager.request(asked.model, asked.version, asked.label) as version:
                return Answer(200, [write_metadata(asked.model, version)])
        model = self.manager.model(asked.model)
        number = asked.version if asked.label is None else model.version(label=asked.label).number
        return Answer(200, [write_status(asked.model, model.versions.values(), number)])

    async def _asked(self, request: HttpRequest, asked: ModelRoute, facts: dict[str, Any]) -> Answer:
        """Answer a request that a model computes; its step is cancelled when the client hangs up."""
        timeout = request.timeout(self.limits)
        body = await received_body(request, self.limits)
        answer: Answer = await self._trio_side.call_unless(
            request.gone, self._compute, request, asked, body, timeout, facts
        )
        return answer

    async def _compute(
        self,
        request: HttpRequest,
        asked: ModelRoute,
        body: bytes,
        seconds: float | None,
        facts: dict[str, Any],
    ) -> Answer:
        """Read a request, call the model, and write the answer; in the trio program."""
        left = request.left(seconds)
        with trio.move_on_after(float("inf") if left is None else left) as scope:
            body = await expanded_body(request, body, self._texts, self.limits)
            with self.manager.request(asked.model, asked.version, asked.label) as version:
                facts["version"] = version.number
                signature, inputs, by_rows = await self._read(asked, body, version)
                facts["signature"] = signature
                facts["rows"] = rows = rows_of(inputs)
                outputs = await version.call(signature, inputs, request.left(seconds))
                if asked.what == "predict":
                    writing = write_predict(outputs, by_rows=by_rows)
                elif asked.what == "classify":
                    writing = write_classification(outputs, rows or 0)
                else:
                    writing = write_regression(outputs, rows or 0)
                elements = sum(getattr(each, "size", 1) for each in outputs.values())
                return Answer(
                    200, await self._texts.finish(writing, elements * SLICE_BYTES // _ELEMENTS_AT_ONCE)
                )
        assert scope.cancelled_caught
        raise DeadlineExceededError(f"the request was not answered within {seconds:g} s")

    async def _read(
        self, asked: ModelRoute, body: bytes, version: ServedVersion
    ) -> tuple[str, dict[str, Any], bool]:
        """Return the signature that a request is for, its inputs, and whether they are listed by rows."""
        if asked.what == "predict":
            read = await self._texts.finish(read_predict(body, version.signatures), len(body))
            return read.signature, read.inputs, read.by_rows
        examples = await self._texts.finish(read_examples(body), len(body))
        facts = signature_for(asked.what, examples.signature, version.signatures)
        return facts.name, {"inputs": examples.examples}, True

    def _log(self, request: HttpRequest, status: int, facts: Mapping[str, Any], size: int) -> None:
        seconds = request.seconds
        if "model" in facts:
            known = facts["model"] if facts["model"] in self.manager.models else "unknown"
            outcome = "OK" if status == 200 else str(status)
            self.metrics.request(known, facts["method"], outcome, seconds, facts.get("rows"))
        if self._access_log is not None:
            self._access_log(
                {
                    "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                    "client": request.client,
                    "method": request.method,
                    "path": request.path,
                    "status": status,
                    "seconds": round(seconds, 6),
                    "bytes_in": request.body_size,
                    "bytes_out": size,
                    **{key: facts[key] for key in ("model", "version", "signature", "rows") if key in facts},
                }
            )


def json_lines(write: Callable[[str], object]) -> Callable[[Mapping[str, Any]], None]:
    """Return an access log that writes each request as a line of JSON."""

    def log(facts: Mapping[str, Any]) -> None:
        write(json.dumps(facts, ensure_ascii=False) + "\n")

    return log


__all__ = ["METRICS_PATH", "ServingApplication", "json_lines"]
