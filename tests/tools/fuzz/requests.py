"""Requests of HTTP to a server of models: good ones, damaged ones, and what each is answered.

A request is bytes: `METHOD path`, `name: value` a line, an empty line, and the body.
"""

from __future__ import annotations

import functools
import json
import random
import re
import tempfile
import threading
from pathlib import Path
from typing import Any, Final

import trio

import flowengine as fe
from flowengine.portal import Portal
from tests.serving.clients import until_ready
from tests.tools.fuzz.chance import NUMBERS, damaged

#: Values that take the place of others in a body.
_VALUES: Final = (
    *("NaN", "Infinity", "-Infinity", "1e400", "-0", "01", "1.", "true", "null", '""', '"x"', '"1"', "[]"),
    *("{}", '{"b64":"!"}', '{"b64":"AA=="}', '{"b64":1}', "[[[]]]", "[" * 300, '"\\ud800"', '"\x00"', "-"),
)
_PATHS: Final = (
    *("/v1/models/../m:predict", "/v1/models/%2e%2e%2fm:predict", "/v1/models/m/versions/999:predict"),
    *("/v1/models/m/labels/x:predict", "/v1/models/m:train", "/v1/models/:predict", "/v1", "//", "/x" * 4000),
    *("/v1/models/m", "/v1/models/m/metadata", "/v1/models/m/versions/99999999999999999999:predict"),
    *("/metrics", "/v2/models/m", "/v2/models/m/infer", "/v2/models/../infer", "/v2/repository/index", "/v2"),
)
_HEADERS: Final = (
    *("content-encoding: gzip", "content-encoding: br", "request-timeout: 1e-9", "request-timeout: nan"),
    *("request-timeout: x", "content-length: 5", "content-length: 99999999999", "content-length: -1"),
    *("inference-header-content-length: 20", "inference-header-content-length: 99999"),
    *("inference-header-content-length: -5", "inference-header-content-length: x"),
    *("expect: 100-continue", "content-type: text/plain"),
)
#: A row of the model's input, without its data.
_ROW: Final = {"name": "x", "shape": [1, 2], "datatype": "FP32"}


def _export(folder: Path) -> None:
    """Write the model "m": signatures of all types, of rows and of none, and of examples."""
    graph = fe.Graph()
    dtypes = ("float32", "float16", "float64", "int8", "int32", "int64", "uint8", "bool", "string")
    placed = {dtype: graph.placeholder(dtype, [None], name=f"in_{dtype}") for dtype in dtypes}
    same = {dtype: fe.identity(each) for dtype, each in placed.items()}
    rows = graph.placeholder("float32", [None, 2], name="rows")
    fixed = graph.placeholder("float32", [2], name="fixed")
    examples = graph.placeholder("string", [None], name="examples")
    parsed: Any = graph.ops.ParseExample(
        examples, [], [], [b"a"], [[0.0, 0.0]], sparse_types=[], dense_shapes=[[2]]
    )
    scores = parsed[-1][0]
    signatures: dict[str, Any] = {
        "serving_default": ({"x": rows}, {"y": fe.add(rows, rows)}),
        "fixed": ({"x": fixed}, {"y": fe.add(fixed, fixed)}),
        "types": (placed, same),
        "classify": ({"inputs": examples}, {"scores": scores}, "tensorflow/serving/classify"),
    }
    with fe.blocking.Session(graph) as session:
        session.call(fe.saved_model.save, folder / "m" / "1", signatures=signatures)


def _post(path: str, body: Any, *headers: str) -> bytes:
    text = body if isinstance(body, str) else json.dumps(body)
    return "\n".join([f"POST {path}", *headers, "", ""]).encode() + text.encode()


def _binary_infer() -> bytes:
    """A request of the Open Inference Protocol whose input and output are binary data."""
    entry = {**_ROW, "parameters": {"binary_data_size": 8}}
    text = json.dumps({"inputs": [entry], "parameters": {"binary_data_output": True}})
    return _post("/v2/models/m/infer", text, f"inference-header-content-length: {len(text)}") + bytes(8)


@functools.cache
def good() -> tuple[bytes, ...]:
    """Requests that are answered with 200."""
    predict = "/v1/models/m:predict"
    columns: dict[str, Any] = {
        **{name: [1, 2] for name in ("float32", "float16", "float64", "int8", "int32", "int64", "uint8")},
        "bool": [True, False],
        "string": ["text", {"b64": "AAEC"}],
    }
    instances = [{name: each[row] for name, each in columns.items()} for row in range(2)]
    many = {"instances": [[float(number), 0.5] for number in range(700)]}
    return (
        _post(predict, {"instances": [[1.0, 2.0], [3, 4]]}),
        _post(predict, {"inputs": [[1.0, 2.0]]}),
        _post(predict, {"inputs": {"x": [[1.0, 2.0]]}}, "request-timeout: 60"),
        _post(predict, {"signature_name": "fixed", "inputs": {"x": [1, 2]}}),
        _post(predict, {"signature_name": "types", "inputs": columns}),
        _post(predict, {"signature_name": "types", "instances": instances}),
        _post("/v1/models/m/versions/1:predict", many),
        _post("/v1/models/m:classify", {"signature_name": "classify", "examples": [{"a": [0.5, 2.0]}] * 2}),
        _post("/v2/models/m/infer", {"id": "7", "inputs": [{**_ROW, "data": [[1.0, 2.0]]}]}),
        _binary_infer(),
        _post("/v2/repository/index", {"ready": True}),
        b"GET /v2/models/m\n\n",
        b"GET /v1/models/m\n\n",
        b"GET /v1/models/m/metadata\n\n",
        b"GET /metrics\n\n",
    )


def changed(data: bytes, chance: random.Random) -> bytes:
    """Return a request with its path, headers, a value of its body, or bytes of it changed."""
    head, _, body = data.partition(b"\n\n")
    lines = head.decode().split("\n")
    kind = chance.randrange(8)
    if kind == 0:
        method = chance.choice(["GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "\u00e4"])
        lines[0] = f"{method} {chance.choice(_PATHS)}"
    elif kind == 1:
        lines += [chance.choice(_HEADERS) for _ in range(chance.choice([1, 1, 2]))]
    elif kind == 2:
        body = b"[" * chance.choice([10, 1000, 100_000]) + body
    elif kind <= 5:
        body = _with_other_value(body, chance)
    else:
        body = damaged(body, chance)
    return "\n".join(lines).encode() + b"\n\n" + body


def _with_other_value(body: bytes, chance: random.Random) -> bytes:
    """Return a body with some of its values, or of its names, replaced by others."""
    for _ in range(chance.choice([1, 1, 2, 4])):
        places = [each.span() for each in re.finditer(rb'"[^"]*"|-?[0-9.]+|true|false|[\[\]{},:]', body)]
        if not places:
            return body
        begin, end = chance.choice(places)
        other = chance.choice([*_VALUES, *map(str, NUMBERS)]).encode("utf-8", "surrogatepass")
        body = body[:begin] + other + body[end:]
    return body


class _Server:
    """An application with its models, in a thread of its own."""

    def __init__(self) -> None:
        folder = tempfile.TemporaryDirectory()
        _export(Path(folder.name))
        self._folder = folder
        self._application = fe.serving.app(
            folder.name, poll_seconds=None, max_body_bytes=1 << 20, timeout_seconds=30.0
        )
        self._portal = Portal()
        ready = threading.Event()
        self._running = self._portal.start(functools.partial(self._run, ready))
        ready.wait()

    async def _run(self, ready: threading.Event) -> None:
        async with self._application:
            await until_ready(self._application)
            ready.set()
            await trio.sleep_forever()

    def ask(self, data: bytes) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        answer: tuple[int, bytes] = self._portal.call(functools.partial(self._ask, data))
        return answer

    async def _ask(self, data: bytes) -> tuple[int, bytes]:
        head, _, body = data.partition(b"\n\n")
        first, *lines = head.decode("utf-8", "replace").split("\n")
        method, _, path = first.partition(" ")
        headers = [
            (name.strip().lower().encode("latin-1", "replace"), value.strip().encode("latin-1", "replace"))
            for name, _, value in (line.partition(":") for line in lines)
        ]
        sent, status, answer = False, 0, b""

        async def receive() -> dict[str, Any]:
            nonlocal sent
            if sent:
                await trio.sleep_forever()
            sent = True
            return {"type": "http.request", "body": body}

        async def send(message: dict[str, Any]) -> None:
            nonlocal status, answer
            status = message.get("status", status)
            answer += message.get("body", b"")

        raw = path.encode("utf-8", "replace")
        scope = {"type": "http", "method": method, "path": path, "raw_path": raw, "headers": headers}
        await self._application(scope, receive, send)
        return status, answer


@functools.cache
def _server() -> _Server:
    return _Server()


def play(data: bytes) -> str:
    """Return "value" for an answer of 200, else its status; AssertionError for any that is no answer.

    An error is an object of JSON with a sentence in it, that tells nothing of the server's own paths.
    """
    status, answer = _server().ask(data)
    if status == 200:
        return "value"
    assert 400 <= status < 500 or status in (501, 504), (status, answer)
    if not data.startswith(b"HEAD"):
        text = json.loads(answer)["error"]
        assert isinstance(text, str)
        assert 0 < len(text) < 4096, text
        assert not any(path in text for path in (tempfile.gettempdir(), ".py")), text
    return str(status)
