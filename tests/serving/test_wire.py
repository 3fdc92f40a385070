"""Requests as they come over the wire: lengths that lie, pieces, and what is no HTTP."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.serving.clients import rows
from tests.serving.exports import export_factor
from tests.serving.processes import PATIENCE, Server, serving

pytest.importorskip("httptools", reason="`flowengine serve` needs uvicorn with httptools")

_BODY: Final = rows(2.0)
_HEAD: Final = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: here\r\nConnection: close\r\n"
_LENGTH: Final = b"Content-Length: %d\r\n" % len(_BODY)
_CHUNKED: Final = b"Transfer-Encoding: chunked\r\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    models = tmp_path_factory.mktemp("models")
    export_factor(models / "m" / "1", 3.0)
    with serving(Path(models)) as started:
        started.until("'m', version 1: AVAILABLE")
        yield started


def _answer(server: Server, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        answer = b""
        while piece := connection.recv(1 << 16):
            answer += piece
    return answer


@pytest.mark.parametrize(
    ("data", "statuses"),
    [
        (_HEAD + _LENGTH + b"\r\n" + _BODY, ["200"]),
        (_HEAD + _CHUNKED + b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(_BODY), _BODY), ["200"]),
        (_HEAD + b"Expect: 100-continue\r\n" + _LENGTH + b"\r\n" + _BODY, ["100", "200"]),
        (_HEAD + b"Content-Length: 5\r\n\r\n" + _BODY, ["400"]),
        (_HEAD + b"Content-Length: 5\r\n" + _LENGTH + b"\r\n" + _BODY, ["400"]),
        (_HEAD + _LENGTH + _LENGTH + b"\r\n" + _BODY, ["400"]),
        (_HEAD + b"Content-Length: -5\r\n\r\n" + _BODY, ["400"]),
        (_HEAD + b"Content-Length: 5\r\n" + _CHUNKED + b"\r\n5\r\nabcde\r\n0\r\n\r\n", ["400"]),
        (_HEAD + _CHUNKED + b"\r\nzz\r\n" + _BODY, ["400"]),
        (b"POST /v1/models/m x:predict HTTP/1.1\r\nContent-Length: 0\r\n\r\n", ["400"]),
        (bytes(range(256)), ["400"]),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", ["400"]),
        (b"GET / HTTP/1.1\r\nConnection: close, Upgrade\r\nUpgrade: websocket\r\n\r\n", ["404"]),
    ],
)
def test_a_request_has_its_status(server: Server, data: bytes, statuses: list[str]) -> None:
    answer = _answer(server, data)
    assert re.findall(r"HTTP/1.1 (\d+)", answer.decode()) == statuses
    if statuses[-1] == "200":
        assert answer.endswith(b'{"predictions": [6.0]}')
    assert not [line for line in server.lines if "Traceback" in line]
