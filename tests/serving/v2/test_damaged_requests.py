"""Requests that lie about their sizes, or are damaged in other ways, are refused and never fail."""

from __future__ import annotations

import functools
import gzip
import json
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.core.work_pieces import at_once
from flowengine.portal import Portal
from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor
from flowengine.serving.v2.inference import json_length, read_infer
from tests.serving.clients import Reply, ask, until_ready
from tests.serving.v2.exports import TYPES

#: Numbers that are no sizes, or not those of the data.
LIES: Final[tuple[Any, ...]] = (
    *(0, 1, 3, 4, 5, 7, 8, 12, 100, -1, -4, 2**31, 2**32, 2**62, 2**63 - 1, 2**63, 2**64 - 1, 2**64, 10**30),
    *(0.0, 4.0, 1e400, float("nan"), True, False, None, "4", "", [4], {}, {"binary_data_size": 4}),
)
SHAPES: Final[tuple[Any, ...]] = (
    [],
    [0],
    [1],
    [2],
    [2, 1],
    [2, 0],
    [2**40],
    [2**63, 0],
    [-1],
    [1.5],
    [True],
    ["2"],
    None,
    "2",
    2,
)
DATA: Final[tuple[Any, ...]] = (
    *([], [1], [1.0, 2.0], [[1], [2]], [[1, 2]], [1, [2]], [None], ["a", "b"], [True, False]),
    1,
    "a",
    {},
)
#: What takes the place of a part of a body: also lengths of strings.
PIECES: Final = (
    b"",
    b"[",
    b"}",
    b'"',
    b"\xff",
    b"1e400",
    b"\\ud800",
    b"\0\0\0\0",
    b"\xff\xff\xff\xff",
    b"\5\0\0\0",
)
#: {field: the false values that a request gives for it}
FIELDS: Final[dict[str, tuple[Any, ...]]] = {
    "name": ("other", "", 1, None, "FP32", "BYTES"),
    "shape": SHAPES,
    "datatype": ("FP32", "BYTES", "BOOL", "INT64", "fp32", "", 1, None),
    "data": DATA,
    "parameters": ({}, [], 1, None, {"shared_memory_region": "a"}),
    "binary_data_size": LIES,
}


def _values(datatype: str) -> tuple[Any, bytes]:
    """Two values of a type, for JSON and as binary data."""
    if datatype == "BYTES":
        return ["a", "bc"], b"\1\0\0\0a\2\0\0\0bc"
    array = np.array([0, 1], dtypes.as_dtype(TYPES[datatype]).as_numpy_dtype)
    return array.tolist(), array.tobytes()


def _good_input(datatype: str, is_binary: bool) -> tuple[dict[str, Any], bytes]:
    data, binary = _values(datatype)
    entry = {"name": datatype, "shape": [2], "datatype": datatype}
    if is_binary or datatype in ("FP16", "BF16"):
        return {**entry, "parameters": {"binary_data_size": len(binary)}}, binary
    return {**entry, "data": data}, b""


def _lie(draw: st.DrawFn, document: dict[str, Any]) -> None:
    """Say something else in a field of an input, or of the request."""
    entry = draw(st.sampled_from([*document["inputs"], document]))
    if entry is document:
        outputs: list[Any] = [
            [{"name": "FP32", "parameters": {"binary_data": draw(st.sampled_from(LIES))}}],
            {},
            [1],
        ]
        given: dict[str, list[Any]] = {
            "id": [7, None],
            "outputs": outputs,
            "inputs": [{}, 1, [1], []],
            "parameters": [1, []],
        }
        name = draw(st.sampled_from([*given, "binary_data_output", "timeout", "triton_x", "signature_name"]))
        if name in given:
            document[name] = draw(st.sampled_from(given[name]))
        else:
            document["parameters"] = {name: draw(st.sampled_from(LIES))}
        return
    name = draw(st.sampled_from([*FIELDS, "binary_data_size", "binary_data_size"]))
    value = draw(st.sampled_from(FIELDS[name]) | st.integers(0, 40))
    if name == "binary_data_size":
        entry["parameters"] = {name: value}
    else:
        entry[name] = value


@st.composite
def requests(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    """A body that is right but for a lie or two, and the header that says how much of it is JSON."""
    chosen = draw(
        st.lists(st.tuples(st.sampled_from(list(TYPES)), st.booleans()), min_size=1, max_size=3, unique=True)
    )
    parts = [_good_input(*each) for each in chosen]
    document: dict[str, Any] = {
        "inputs": [entry for entry, _ in parts],
        "parameters": {"binary_data_output": True},
    }
    for _ in range(draw(st.integers(0, 2))):
        if isinstance(document["inputs"], list) and all(
            isinstance(each, dict) for each in document["inputs"]
        ):
            _lie(draw, document)
    text = json.dumps(document).encode()
    body = text + b"".join(binary for _, binary in parts)
    header: bytes | None = str(len(text)).encode()
    kind = draw(st.integers(0, 9))
    if kind == 0:
        header = draw(st.sampled_from([None, b"0", b"-1", b"1e400", b"x", b"", b"9" * 30]))
    elif kind == 1:
        header = str(draw(st.integers(0, len(body) + 2))).encode()
    elif kind <= 4:
        place = draw(st.integers(0, len(body)))
        other = draw(st.binary(max_size=4) | st.sampled_from(PIECES))
        body = body[:place] + other + body[place + draw(st.integers(0, 4)) :]
    return body, header


@functools.cache
def _signatures() -> dict[str, SignatureFacts]:
    """A signature with an input of each type, none of which must be given."""
    inputs = {
        name: SignatureTensor((f"{name}:0",), dtypes.as_dtype(dtype), TensorShape(None), default=np.zeros(2))
        for name, dtype in TYPES.items()
    }
    return {"serving_default": SignatureFacts("serving_default", inputs, inputs)}


@given(requests())
def test_a_damaged_request_is_read_or_refused(given: tuple[bytes, bytes | None]) -> None:
    body, header = given
    try:
        length = json_length(header, len(body))
        read = at_once(read_infer(body, length, "m", _signatures()))
    except InvalidArgumentError:
        return
    document = json.loads(body[: len(body) if length is None else length].decode("utf-8", "surrogateescape"))
    for each in document["inputs"]:
        array = read.inputs[each["name"]]
        assert list(array.shape) == each["shape"]
        assert array.dtype == dtypes.as_dtype(TYPES[each["datatype"]]).as_numpy_dtype


class Served:
    """A model with an input of each type, in an application that runs in a portal's thread."""

    def __init__(self, folder: Path) -> None:
        graph = fe.Graph()
        placed = {name: graph.placeholder(dtype, [None], name=name) for name, dtype in TYPES.items()}
        signatures: dict[str, Any] = {
            "serving_default": (placed, {name: fe.identity(each) for name, each in placed.items()}),
            **{name: ({name: each}, {name: fe.identity(each)}) for name, each in placed.items()},
        }
        with fe.blocking.Session(graph) as session:
            session.call(fe.saved_model.save, folder / "m" / "1", signatures=signatures)
        self._application = fe.serving.app(folder, poll_seconds=None, max_body_bytes=10_000)
        self._portal = Portal()
        ready = threading.Event()
        self._running = self._portal.start(functools.partial(self._run, ready))
        assert ready.wait(60)

    async def _run(self, ready: threading.Event) -> None:
        async with self._application:
            await until_ready(self._application)
            ready.set()
            await trio.sleep_forever()

    def ask(self, body: bytes, headers: dict[str, str]) -> Reply:
        """Send a request for an inference."""
        path = "/v2/models/m/infer"
        reply: Reply = self._portal.call(
            functools.partial(ask, self._application, path, body, headers=headers)
        )
        return reply

    def close(self) -> None:
        self._running.cancel()
        self._portal.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Served]:
    with tempfile.TemporaryDirectory() as folder:
        made = Served(Path(folder))
        yield made
        made.close()


@given(request=requests(), is_compressed=st.booleans())
def test_a_damaged_request_never_fails(server: Served, request: Any, is_compressed: bool) -> None:
    body, length = request
    headers = {} if length is None else {"Inference-Header-Content-Length": length.decode()}
    if is_compressed:
        headers["Content-Encoding"] = "gzip"
        body = gzip.compress(body)[: None if len(body) % 3 else -5]
    reply = server.ask(body, headers)
    assert reply.status == 200 or 400 <= reply.status < 500, reply.body
    if reply.status != 200:
        assert 10 < len(reply.error) < 2000
