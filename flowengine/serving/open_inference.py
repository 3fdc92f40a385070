"""The Open Inference Protocol over HTTP: `/v2/...` of an application."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import trio

from flowengine.core import dtypes
from flowengine.core.errors import DeadlineExceededError, NotFoundError, OpError
from flowengine.saved_model.signatures import SignatureFacts
from flowengine.serving.bodies import expanded_body, received_body
from flowengine.serving.encodings import accepted_encoding, compressing
from flowengine.serving.long_texts import TextThread
from flowengine.serving.models.manager import ModelManager
from flowengine.serving.models.versions import ServedVersion, load_failure
from flowengine.serving.requests import Answer, HttpRequest, RequestError, RequestLimits
from flowengine.serving.text.values import array_of, rows_of
from flowengine.serving.trio_side import TrioSide
from flowengine.serving.v2.answers import write_infer
from flowengine.serving.v2.describing import write_model, write_ready, write_server
from flowengine.serving.v2.inference import InferRequest, json_length, read_infer
from flowengine.serving.v2.repository import read_repository_request, write_index
from flowengine.serving.v2.routes import ProtocolRoute, route
from flowengine.serving.version import server_version

logger: Final = logging.getLogger("flowengine.serving")

_LENGTH: Final = b"inference-header-content-length"
#: Bytes of JSON that take as long as one element of an output.
_BYTES_PER_ELEMENT: Final = 16
#: Bytes of numbers that are copied as fast as one byte of JSON is read.
_COPIED_PER_BYTE: Final = 64


class OpenInference:
    """The endpoints of the Open Inference Protocol, and of Triton's model repository.

    manager     the models
    trio_side   the program in which they run
    texts       what reads and writes long bodies
    limits      what a request may take
    """

    def __init__(
        self, manager: ModelManager, trio_side: TrioSide, texts: TextThread, limits: RequestLimits
    ) -> None:
        self._manager = manager
        self._trio_side = trio_side
        self._texts = texts
        self._limits = limits

    async def answer(self, request: HttpRequest, facts: dict[str, Any]) -> Answer:
        """Answer a request; `facts` are filled with what is known of it, for log and metrics.

        Raises RequestError, ClientGone and what a model's step fails with.
        """
        asked = route(request.method, request.path)
        if asked.what == "infer":
            facts.update(model=asked.model, method="infer")
            timeout = request.timeout(self._limits)
            body = await received_body(request, self._limits)
            answer: Answer = await self._trio_side.call_unless(
                request.gone, self._infer, request, asked, body, timeout, facts
            )
            return answer
        if asked.what in ("index", "load", "unload"):
            body = await received_body(request, self._limits)
            controlled: Answer = await self._trio_side.call_unless(
                request.gone, self._control, request, asked, body
            )
            return controlled
        if asked.model is None:
            return self._server(asked.what)
        described: Answer = await self._trio_side.call(self._describe, asked)
        return described

    def _server(self, what: str) -> Answer:
        if what == "live":
            return Answer(200, [b'{"live": true}\n'])
        if what == "server":
            return Answer(200, [write_server(server_version())])
        ready = self._manager.is_ready
        return Answer(200 if ready else 503, [write_ready(None, is_ready=ready)])

    async def _describe(self, asked: ProtocolRoute) -> Answer:
        name = asked.model or ""
        if asked.what == "metadata":
            with self._version(asked) as version:
                numbers = [each.number for each in self._manager.model(name).available]
                return Answer(200, [write_model(name, numbers, version)])
        if name not in self._manager.models:
            raise _unknown(name)
        try:
            self._manager.models[name].version(asked.version)
            ready = not self._manager.is_draining
        except NotFoundError:
            ready = False
        return Answer(200 if ready else 503, [write_ready(name, is_ready=ready)])

    @contextmanager
    def _version(self, asked: ProtocolRoute) -> Iterator[ServedVersion]:
        name = asked.model or ""
        if name not in self._manager.models:
            raise _unknown(name)
        if asked.version is not None and asked.version not in self._numbers(name):
            raise NotFoundError(f"Request for unknown model: '{name}' version {asked.version} is not found")
        if not self._numbers(name):
            raise NotFoundError(f"Request for unknown model: '{name}' has no available versions")
        with self._manager.request(name, asked.version) as version:
            yield version

    def _numbers(self, name: str) -> list[int]:
        return [each.number for each in self._manager.models[name].available]

    async def _infer(
        self,
        request: HttpRequest,
        asked: ProtocolRoute,
        sent: bytes,
        seconds: float | None,
        facts: dict[str, Any],
    ) -> Answer:
        """Read a request, call the model, and write the answer; in the trio program."""
        left = request.left(seconds)
        with trio.move_on_after(float("inf") if left is None else left) as scope:
            body = await expanded_body(request, sent, self._texts, self._limits)
            with self._version(asked) as version:
                facts["version"] = version.number
                read = await self._read(request, body, asked.model or "", version)
                facts["signature"] = read.signature
                facts["rows"] = rows_of(read.inputs)
                if read.timeout_seconds is not None:
                    seconds = min(read.timeout_seconds, float("inf") if seconds is None else seconds)
                    scope.deadline = min(scope.deadline, trio.current_time() + (request.left(seconds) or 0.0))
                outputs = await version.call(read.signature, read.inputs, request.left(seconds))
                return await self._written(request, asked.model or "", version.number, read, outputs)
        assert scope.cancelled_caught
        raise DeadlineExceededError(f"the request was not answered within {seconds:g} s")

    async def _read(
        self, request: HttpRequest, body: bytes, model: str, version: ServedVersion
    ) -> InferRequest:
        if _LENGTH in request.repeated:
            raise RequestError(400, "the header Inference-Header-Content-Length is given twice")
        length = json_length(request.headers.get(_LENGTH), len(body))
        size = len(body)
        if length is not None and not _has_strings(version.signatures):
            size = length + (len(body) - length) // _COPIED_PER_BYTE
        return await self._texts.finish(read_infer(body, length, model, version.signatures), size)

    async def _written(
        self,
        request: HttpRequest,
        model: str,
        number: int,
        read: InferRequest,
        outputs: Mapping[str, Any],
    ) -> Answer:
        size = 0
        for name, is_binary in read.outputs.items():
            array = array_of(outputs[name])
            copied = is_binary and array.dtype.kind != "O"
            size += array.nbytes // _COPIED_PER_BYTE if copied else _BYTES_PER_ELEMENT * array.size
        written = await self._texts.finish(write_infer(model, number, read, outputs), size)
        answer = Answer(200, written.pieces)
        if written.header_length is not None:
            answer.media_type = b"application/octet-stream"
            answer.headers.append((_LENGTH, str(written.header_length).encode()))
        encoding = accepted_encoding(request.headers.get(b"accept-encoding"), answer.size)
        if encoding:
            pieces = compressing(written.pieces, encoding)
            answer.pieces = await self._texts.finish(pieces, answer.size)
            answer.headers += [(b"content-encoding", encoding.encode()), (b"vary", b"accept-encoding")]
        return answer

    async def _control(self, request: HttpRequest, asked: ProtocolRoute, sent: bytes) -> Answer:
        """Answer for the index, or load or unload a model, if that is allowed."""
        body = await expanded_body(request, sent, self._texts, self._limits)
        read = await self._texts.finish(read_repository_request(asked.what, body), len(body))
        if asked.what == "index":
            return Answer(200, [write_index(self._manager.models.values(), ready_only=read.ready_only)])
        if not self._manager.is_explicit:
            raise RequestError(
                403, "explicit model load / unload is not allowed: serve with --model-control=explicit"
            )
        name = asked.model or ""
        if asked.what == "unload":
            if name not in self._manager.models:
                raise _unknown(name)
            await self._manager.unload(name, waits=False)
            return Answer(200, [b"{}\n"])
        try:
            await self._manager.load(name)
        except OpError as error:
            if name not in self._manager.models:
                raise NotFoundError(f"failed to load '{name}': {_unknown(name).message}") from None
            logger.warning("model '%s' could not be loaded: %s", name, error.message)
            raise RequestError(400, f"failed to load '{name}': {load_failure(error)}") from None
        return Answer(200, [b"{}\n"])


def _unknown(name: str) -> NotFoundError:
    return NotFoundError(f"Request for unknown model: '{name}' is not found")


def _has_strings(signatures: Mapping[str, SignatureFacts]) -> bool:
    return any(each.dtype is dtypes.string for facts in signatures.values() for each in facts.inputs.values())


__all__ = ["OpenInference"]
