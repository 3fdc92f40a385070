"""A request of an ASGI server: its path, its body within limits, and the answer to it."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Final, TypeAlias

from flowengine.core.errors import DeadlineExceededError
from flowengine.serving.event_loops import turn_of_others

Receive: TypeAlias = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send: TypeAlias = Callable[[dict[str, Any]], Awaitable[None]]

#: Bytes of an answer that are sent in one turn of the event loop.
_SENT_AT_ONCE: Final = 256 << 10


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The bounds on one request.

    body_bytes        most bytes of a body, also when it is expanded
    body_seconds      how long its body may take to come
    timeout_seconds   how long its answer may take; a header `Request-Timeout` of fewer seconds comes first
    """

    body_bytes: int = 64 << 20
    body_seconds: float = 30.0
    timeout_seconds: float | None = None


class RequestError(Exception):
    """A request that is refused before a model is asked: a status of HTTP, and a sentence."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.message = message


class ClientGone(Exception):
    """The client has hung up: nobody reads an answer."""


@dataclass(slots=True)
class Answer:
    """An answer to a request: a status, the pieces of a body, and headers besides its type and length."""

    status: int
    pieces: list[bytes]
    media_type: bytes = b"application/json"
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)

    @property
    def size(self) -> int:
        """The number of bytes of the body."""
        return sum(map(len, self.pieces))


def error_answer(status: int, message: str) -> Answer:
    """Return the answer that tells an error: `{"error": "..."}`; bytes that are no UTF-8 become U+FFFD."""
    text = json.dumps({"error": message}, ensure_ascii=False).encode("utf-8", "surrogateescape")
    return Answer(status, [text.decode("utf-8", "replace").encode() + b"\n"])


class HttpRequest:
    """One request.

    method, path   as they stand in it; the path without the prefix that the application is mounted under,
                   and without its query
    prefix         the path that the application is mounted under, "" for none
    started        the moment of `perf_counter` when it came
    """

    def __init__(self, scope: Mapping[str, Any], receive: Receive) -> None:
        self.method: str = scope["method"]
        self.started = perf_counter()
        self.headers: dict[bytes, bytes] = {}
        self.repeated: set[bytes] = set()
        for name, value in scope["headers"]:
            if name in self.headers:
                self.repeated.add(name)
            self.headers[name] = value
        raw = scope.get("raw_path") or scope["path"].encode()
        path = raw.partition(b"?")[0].decode("latin-1")
        self.prefix: str = scope.get("root_path") or ""
        is_below = self.prefix and path.startswith(f"{self.prefix}/")
        self.path = path[len(self.prefix) :] if is_below else path
        self.client: str = (scope.get("client") or ("",))[0]
        self.body_size = 0
        self.encoding = ""
        self._receive = receive

    def timeout(self, limits: RequestLimits) -> float | None:
        """Return how many seconds its answer may take; RequestError for a header that is no number."""
        given = self.headers.get(b"request-timeout")
        if given is None:
            return limits.timeout_seconds
        try:
            seconds = float(given)
        except ValueError:
            seconds = -1.0
        if not 0 < seconds < 1e9:
            raise RequestError(400, "the header Request-Timeout must be a positive number of seconds")
        return seconds if limits.timeout_seconds is None else min(seconds, limits.timeout_seconds)

    async def body(self, limits: RequestLimits) -> bytes:
        """Read the body as it was sent: its `encoding` is known then, "" for none.

        Raises RequestError for one that is too large, or encoded in an unknown way, and ClientGone.
        """
        self.encoding = content_encoding(self.headers.get(b"content-encoding", b""))
        told = self.headers.get(b"content-length", b"")
        if told.isdigit() and int(told) > limits.body_bytes:
            raise too_large(limits)
        pieces = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            self.body_size += len(piece)
            if self.body_size > limits.body_bytes:
                raise too_large(limits)
            pieces.append(piece)
            if not message.get("more_body", False):
                break
        return b"".join(pieces)

    async def gone(self) -> None:
        """Return once the client has hung up; its body has been read."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    @property
    def seconds(self) -> float:
        """How long ago it came."""
        return perf_counter() - self.started

    def left(self, timeout_seconds: float | None) -> float | None:
        """Return the seconds left of its time; DeadlineExceededError if there are none."""
        if timeout_seconds is None:
            return None
        left = timeout_seconds - self.seconds
        if left <= 0:
            raise DeadlineExceededError(f"the request was not answered within {timeout_seconds:g} s")
        return left


def content_encoding(given: bytes) -> str:
    """Return the encoding of a body by its header, "" for none; RequestError for one that is not read."""
    name = given.decode("latin-1").strip().lower()
    if name not in ("", "identity", "gzip", "deflate"):
        raise RequestError(415, "bodies may be encoded with gzip or deflate, and in no other way")
    return "" if name == "identity" else name


def too_large(limits: RequestLimits) -> RequestError:
    """Return the error for a body of more bytes than the limit."""
    return RequestError(413, f"the body has more than {limits.body_bytes:,} bytes")


async def send(answer: Answer, send_message: Send) -> None:
    """Send an answer."""
    headers = [
        (b"content-type", answer.media_type),
        (b"content-length", str(answer.size).encode()),
        *answer.headers,
    ]
    await send_message({"type": "http.response.start", "status": answer.status, "headers": headers})
    sent = 0
    for piece in answer.pieces[:-1]:
        await send_message({"type": "http.response.body", "body": piece, "more_body": True})
        sent += len(piece)
        if sent >= _SENT_AT_ONCE:
            # A server waits only for slow clients: to a fast one, all would go in one turn of the loop.
            sent = 0
            await turn_of_others()
    await send_message({"type": "http.response.body", "body": answer.pieces[-1] if answer.pieces else b""})
