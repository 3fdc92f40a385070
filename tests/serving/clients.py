"""A client of an ASGI application without a server between: one request, and what was sent back."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trio

import flowengine as fe
from flowengine.serving.application import ServingApplication


@dataclass
class Reply:
    """The answer to one request."""

    status: int = 0
    headers: dict[bytes, bytes] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> str:
        """The sentence of an error."""
        return str(self.json["error"])


async def ask(
    application: ServingApplication,
    path: str,
    body: bytes | Iterable[bytes] | None = None,
    *,
    method: str | None = None,
    headers: dict[str, str] | None = None,
    gone: trio.Event | None = None,
    root_path: str = "",
    cut: bool = False,
) -> Reply:
    """Send a request: a POST if it has a body; the client hangs up when `gone` is set.

    cut   whether the rest of the body never comes
    """
    pieces = [body] if isinstance(body, bytes) else list(body or [])
    sent = 0
    reply = Reply()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if sent < max(len(pieces), 1):
            piece = pieces[sent] if pieces else b""
            sent += 1
            return {"type": "http.request", "body": piece, "more_body": cut or sent < len(pieces)}
        if gone is None:
            await trio.sleep_forever()
        else:
            await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers.update(message["headers"])
        else:
            reply.body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": method or ("GET" if body is None else "POST"),
        "path": path,
        "raw_path": (root_path + path).encode("latin-1"),
        "root_path": root_path,
        "headers": [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()],
        "client": ("127.0.0.1", 1),
    }
    await application(scope, receive, send)
    return reply


def rows(*values: Any) -> bytes:
    """The body of a request for predictions of these rows."""
    return json.dumps({"instances": list(values)}).encode()


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[ServingApplication]:
    """Return a context in which the models of a folder answer."""
    application = fe.serving.app(folder, poll_seconds=None, **options)
    async with application:
        await until_ready(application)
        yield application


async def until_ready(application: ServingApplication) -> None:
    """Wait until the models of an application that has been entered answer."""
    changed = trio.Event()
    count = application.manager.on_change

    def note(name: str, version: Any) -> None:
        nonlocal changed
        count(name, version)
        changed.set()
        changed = trio.Event()

    application.manager.on_change = note
    with trio.fail_after(60):
        while not application.manager.is_ready:
            await changed.wait()
