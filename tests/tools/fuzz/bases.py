"""Good inputs to damage: small graphs with what graphs are made of, files, images."""

from __future__ import annotations

import os
import struct
import tempfile
import zlib
from collections.abc import Callable
from functools import cache
from typing import Final

import numpy as np
import trio

from flowengine.core.checksums.crc32c import crc32c, mask
from flowengine.core.errors import OpError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.session import Session
from flowengine.testing.control import conditional, while_loop


def _bytes(graph: Graph) -> bytes:
    return bytes(graph.to_graph_def().SerializeToString(deterministic=True))


def _arithmetic() -> Graph:
    graph = Graph()
    x = graph.placeholder("float32", [None, 3], name="x")
    w = graph.constant(np.ones((3, 4), np.float32))
    hidden = graph.ops.Relu(graph.ops.BiasAdd(graph.ops.MatMul(x, w), np.zeros(4, np.float32)))
    graph.ops.Softmax(hidden, name="out")
    graph.ops.Sum(hidden, np.array([0], np.int32), name="sum")
    graph.ops.Reshape(graph.ops.Concat(np.int32(1), [hidden, hidden]), np.array([-1, 2], np.int32))
    return graph


def _convolution() -> Graph:
    graph = Graph()
    x = graph.constant(np.ones((1, 6, 6, 2), np.float32))
    filters = graph.constant(np.ones((3, 3, 2, 2), np.float32))
    out = graph.ops.Conv2D(x, filters, strides=[1, 1, 1, 1], padding="SAME")
    pooled = graph.ops.MaxPool(out, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")
    graph.ops.Pad(pooled, np.array([[0, 0], [1, 1], [1, 1], [0, 0]], np.int32))
    graph.ops.ResizeBilinear(pooled, np.array([4, 4], np.int32))
    return graph


def _loop() -> Graph:
    graph = Graph()
    limit = graph.constant(np.int32(5))
    outcome = while_loop(
        graph,
        lambda i, total, limit: graph.ops.Less(i, limit),
        lambda i, total, limit: [graph.ops.Add(i, 1), graph.ops.Mul(total, 1.5)],
        [graph.constant(np.int32(0)), graph.constant(np.float32(1))],
        invariants=[limit],
    )
    graph.ops.Identity(outcome[1], name="out")
    return graph


def _nested() -> Graph:
    graph = Graph()
    limit = graph.constant(np.int32(3))

    def body(i: Tensor, x: Tensor, limit: Tensor) -> list[Tensor]:
        inner = while_loop(
            graph,
            lambda j, y, i: graph.ops.Less(j, i),
            lambda j, y, i: [graph.ops.Add(j, 1), graph.ops.Add(y, y)],
            [graph.ops.ZerosLike(i), x],
            invariants=[i],
            name="inner",
        )
        return [graph.ops.Add(i, graph.ops.OnesLike(inner[0])), inner[1]]

    outcome = while_loop(
        graph,
        lambda i, x, limit: graph.ops.Less(i, limit),
        body,
        [graph.constant(np.int32(0)), graph.constant(np.float32(1))],
        invariants=[limit],
    )
    graph.ops.Identity(outcome[1], name="out")
    return graph


def _branches() -> Graph:
    graph = Graph()
    which = graph.placeholder("bool", [], name="which")
    x = graph.placeholder("float32", [2], name="x")
    results = conditional(
        graph, which, lambda x: [graph.ops.Neg(x)], lambda x: [graph.ops.Add(x, np.ones(2, np.float32))], [x]
    )
    graph.ops.Identity(results[0], name="out")
    return graph


def _state() -> Graph:
    graph = Graph()
    variable = graph.ops.VariableV2(shape=[4], dtype="float32", name="v")
    first = graph.ops.Assign(variable, np.zeros(4, np.float32), name="init")
    with graph.control_dependencies([first]):
        graph.ops.ScatterAdd(variable, np.array([0, 2, 2]), np.ones(3, np.float32))
        handle = graph.ops.VarHandleOp(shape=[2], dtype="int32", shared_name="h")
        with graph.control_dependencies([graph.ops.AssignVariableOp(handle, np.zeros(2, np.int32))]):
            graph.ops.ReadVariableOp(handle, dtype="int32")
    return graph


def _queues() -> Graph:
    graph = Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[2]], capacity=3)
    put = graph.ops.QueueEnqueueManyV2(queue, [np.ones((3, 2), np.float32)])
    with graph.control_dependencies([put]):
        graph.ops.QueueDequeueManyV2(queue, np.int32(2), component_types=["float32"])
    array = graph.ops.TensorArrayV3(np.int32(4), dtype="float32", clear_after_read=False)
    written = graph.ops.TensorArrayWriteV3(array[0], np.int32(1), np.ones(2, np.float32), array[1])
    graph.ops.TensorArrayReadV3(array[0], np.int32(1), written, dtype="float32")
    return graph


def _strings() -> Graph:
    graph = Graph()
    words = graph.constant(np.array([b"a,b", b"", b"c d e"], object))
    graph.ops.StringSplit(words, np.array(b" ", object)[()])
    graph.ops.RegexReplace(words, b"[a-c]", b"x")
    graph.ops.StringJoin([words, words], separator=b"-")
    graph.ops.DecodeRaw(graph.constant(np.array([b"12345678"], object)), out_type="float32")
    graph.ops.StringToNumber(graph.constant(np.array([b"1.5"], object)))
    return graph


def _slicing() -> Graph:
    graph = Graph()
    x = graph.constant(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    ends = [np.array(each, np.int32) for each in ([0, 1], [2, 3], [1, 1])]
    graph.ops.StridedSlice(x, *ends, begin_mask=1, shrink_axis_mask=0)
    graph.ops.GatherV2(x, np.array([1, 0], np.int32), np.int32(0))
    graph.ops.Tile(x, np.array([1, 2, 1], np.int32))
    graph.ops.Transpose(x, np.array([2, 0, 1], np.int32))
    graph.ops.TopKV2(x, np.int32(2))
    graph.ops.OneHot(np.array([0, 2], np.int32), np.int32(3), np.float32(1), np.float32(0))
    graph.ops.Range(np.int32(0), np.int32(5), np.int32(1))
    graph.ops.Fill(np.array([2, 2], np.int32), np.float32(3))
    return graph


_GRAPHS: Final[tuple[Callable[[], Graph], ...]] = (
    *(_arithmetic, _convolution, _loop, _nested, _branches, _state, _queues, _strings, _slicing),
)


@cache
def graphs() -> tuple[bytes, ...]:
    """GraphDefs that run."""
    return tuple(_bytes(make()) for make in _GRAPHS)


@cache
def records() -> tuple[bytes, ...]:
    """Files of TFRecords: short ones, an empty one, a long one; plain and compressed."""
    plain = b""
    for content in (b"first", b"", b"x" * 300, b"last"):
        length = struct.pack("<Q", len(content))
        plain += length + struct.pack("<I", mask(crc32c(length)))
        plain += content + struct.pack("<I", mask(crc32c(content)))
    return plain, zlib.compress(plain)


@cache
def checkpoints() -> tuple[tuple[tuple[str, bytes], ...], ...]:
    """The files of checkpoints under the prefix `m`, of both formats."""
    from flowengine.checkpoint import BundleWriter, V1Writer
    from flowengine.core import dtypes

    found = []
    for kind in (BundleWriter, V1Writer):
        with tempfile.TemporaryDirectory() as folder:
            with kind(os.path.join(folder, "m"), sync=False) as writer:
                writer.add(b"a", np.arange(6, dtype=np.float32).reshape(2, 3), dtypes.float32)
                writer.add(b"s", np.array([b"one", b""], object), dtypes.string)
                writer.add_slice(b"p", (4,), ((0, 2),), np.ones(2, np.int32), dtypes.int32)
                writer.add_slice(b"p", (4,), ((2, 2),), np.ones(2, np.int32), dtypes.int32)
            files = sorted(os.listdir(folder))
            found.append(tuple((name, _read(os.path.join(folder, name))) for name in files))
    return tuple(found)


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


@cache
def images() -> tuple[bytes, ...]:
    """PNG of three depths, BMP, GIF of two frames, and JPEG where Pillow is there."""
    found = [_png(8, 2), _png(16, 0), _png(8, 3), _bmp(), _gif()]
    graph = Graph()
    pixels = np.arange(300, dtype=np.uint8).reshape(10, 10, 3)
    jpeg = graph.ops.EncodeJpeg(graph.constant(pixels))

    async def encoded() -> bytes:
        async with Session(graph) as session:
            return bytes(await session.run(jpeg))

    try:
        return (*found, trio.run(encoded))
    except OpError:  # without the extra `image`
        return tuple(found)


def _png(depth: int, colours: int) -> bytes:
    channels = 3 if colours == 2 else 1
    row = b"\x00" + bytes(range(4 * channels * depth // 8))

    def chunk(name: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        )

    palette = chunk(b"PLTE", bytes(range(48))) if colours == 3 else b""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 4, 3, depth, colours, 0, 0, 0))
    return (
        b"\x89PNG\r\n\x1a\n" + header + palette + chunk(b"IDAT", zlib.compress(row * 3)) + chunk(b"IEND", b"")
    )


def _bmp() -> bytes:
    rows = bytes(range(12)) * 2
    header = struct.pack("<IiiHHIIiiII", 40, 4, 2, 1, 24, 0, len(rows), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(rows), 0, 0, 54) + header + rows


def _gif() -> bytes:
    colours = bytes([0, 0, 0, 255, 255, 255])
    frame = b"!\xf9\x04\x00\x00\x00\x00\x00,\x00\x00\x00\x00\x02\x00\x02\x00\x00\x02\x03\x44\x02\x05\x00"
    return b"GIF89a\x02\x00\x02\x00\x80\x00\x00" + colours + frame * 2 + b";"
