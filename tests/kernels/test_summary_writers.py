"""Writers of event files: what lies in the files, when it is written, and who may."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio
from trio.testing import MockClock

import flowengine as fe
from flowengine.ir.wire import fields, signed
from flowengine.resources.event_files import FILE_VERSION
from flowengine.resources.tf_records import tf_records


def _fields(message: bytes) -> dict[int, Any]:
    """{number: what the last field of it holds}."""
    return {number: value for number, _, value in fields(message)}


def _events(folder: Path) -> list[dict[int, Any]]:
    """The events of the only file in a folder, as {field: payload}; checksums are compared."""
    (path,) = folder.iterdir()
    assert path.name.startswith("events.out.tfevents.")
    blocks = tf_records(io.BytesIO(path.read_bytes()), b"file")
    return [_fields(record) for block in blocks for _, record in block]


def _value(event: dict[int, Any]) -> dict[int, Any]:
    """The fields of the first value of an event's summary."""
    return _fields(_fields(event[5])[1])


class _Written:
    """A graph with a writer of a folder; `add` makes a node that writes, in this order."""

    def __init__(self, folder: Path, *, queue: int = 10, millis: int = 120_000) -> None:
        self.graph = fe.Graph()
        self.folder = folder
        ops, constant = self.graph.ops, self.graph.constant
        self.writer = ops.SummaryWriter(shared_name="events")
        self.create = ops.CreateSummaryFileWriter(
            self.writer,
            constant(str(folder).encode()),
            constant(queue),
            constant(millis),
            constant(b".v2"),
        ).name
        self.flush = ops.FlushSummaryWriter(self.writer).name
        self.close = ops.CloseSummaryWriter(self.writer).name

    def add(self, op: str, *inputs: Any, step: int = 7, **attrs: Any) -> str:
        made = [each if isinstance(each, fe.Tensor) else self.graph.constant(each) for each in inputs]
        where = self.graph.constant(step, "int64")
        node: Any = getattr(self.graph.ops, op)(self.writer, where, *made, **attrs)
        return str(node.name)


async def _written(made: _Written, *nodes: str) -> list[dict[int, Any]]:
    async with fe.Session(made.graph) as session:
        for node in (made.create, *nodes, made.flush):
            await session.run([], targets=[node])
        return _events(made.folder)


async def test_a_file_begins_with_its_version_and_holds_what_was_written(tmp_path: Path) -> None:
    made = _Written(tmp_path / "new" / "run")
    node = made.add("WriteScalarSummary", b"loss", 0.5, step=-3)
    first, event = await _written(made, node)
    assert first[3] == FILE_VERSION
    assert struct.unpack("<d", event[1].to_bytes(8, "little"))[0] > 1e9
    assert signed(event[2]) == -3
    assert _value(event) == {1: b"loss", 2: int.from_bytes(struct.pack("<f", 0.5), "little")}


async def test_histograms_images_and_sounds_are_the_summaries_of_the_ops_without_a_writer(
    tmp_path: Path,
) -> None:
    made = _Written(tmp_path)
    constant, ops = made.graph.constant, made.graph.ops
    values = constant(np.array([1.0, -2.0, 3.5], np.float32))
    picture = constant(np.linspace(-1, 2, 24, dtype=np.float32).reshape(2, 2, 2, 3))
    sound = constant(np.linspace(-1, 1, 12, dtype=np.float32).reshape(1, 6, 2))
    colour = constant(np.array([255, 0, 0, 255], np.uint8))
    nodes = [
        made.add("WriteHistogramSummary", b"h", values),
        made.add("WriteImageSummary", b"i", picture, colour, max_images=2),
        made.add("WriteAudioSummary", b"a", sound, 8000.0),
    ]
    alone = [
        ops.HistogramSummary(constant(b"h"), values),
        ops.ImageSummary(constant(b"i"), picture, max_images=2),
        ops.AudioSummaryV2(constant(b"a"), sound, constant(8000.0)),
    ]
    async with fe.Session(made.graph) as session:
        for node in (made.create, *nodes, made.flush):
            await session.run([], targets=[node])
        expected = await session.run(alone)
    assert [event[5] for event in _events(tmp_path)[1:]] == list(map(bytes, expected))


async def test_tensors_protocol_buffers_and_graphs_are_written_as_they_are(tmp_path: Path) -> None:
    made = _Written(tmp_path)
    summary = b"\x0a\x06\x0a\x01s\x15\x00\x00"[:2] + b"\x0a\x01s\x15" + struct.pack("<f", 2.0)
    summary = b"\x0a" + bytes([len(summary) - 2]) + summary[2:]
    graph_def = made.graph.to_graph_def().SerializeToString()
    event = b"\x09" + struct.pack("<d", 5.0) + b"\x10\x09"
    nodes = [
        made.add("WriteSummary", np.array([3, 4], np.int32), b"t", b"\x0a\x02\x0a\x00"),
        made.add("WriteRawProtoSummary", summary),
        made.add("WriteGraphSummary", graph_def),
        str(made.graph.ops.ImportEvent(made.writer, made.graph.constant(event)).name),
    ]
    _, tensor, raw, graph, imported = await _written(made, *nodes)
    assert _value(tensor)[1] == b"t"
    assert _fields(_value(tensor)[8])[4] == np.array([3, 4], "<i4").tobytes()
    assert _value(tensor)[9] == b"\x0a\x02\x0a\x00"
    assert raw[5] == summary
    assert graph[4] == graph_def
    assert imported == {1: int.from_bytes(struct.pack("<d", 5.0), "little"), 2: 9}


async def test_events_are_written_when_many_wait(tmp_path: Path) -> None:
    made = _Written(tmp_path, queue=2)
    node = made.add("WriteScalarSummary", b"loss", 0.5)
    async with fe.Session(made.graph) as session:
        await session.run([], targets=[made.create])
        counts = []
        for _ in range(4):
            await session.run([], targets=[node])
            counts.append(len(_events(tmp_path)) - 1)
    assert counts == [0, 0, 3, 3]
    assert len(_events(tmp_path)) == 5, "the end of the session writes the rest"


def test_events_are_written_when_one_has_waited_long(tmp_path: Path) -> None:
    made = _Written(tmp_path, millis=2000)
    node = made.add("WriteScalarSummary", b"loss", 0.5)
    clock = MockClock()

    async def main() -> list[int]:
        counts = []
        async with fe.Session(made.graph) as session:
            await session.run([], targets=[made.create])
            for seconds in (1.5, 1.0, 1.0):
                clock.jump(seconds)
                await session.run([], targets=[node])
                counts.append(len(_events(tmp_path)) - 1)
        return counts

    assert trio.run(main, clock=clock) == [0, 2, 2]


async def test_a_writer_is_open_from_its_creation_to_its_end(tmp_path: Path) -> None:
    made = _Written(tmp_path)
    node = made.add("WriteScalarSummary", b"loss", 0.5)
    async with fe.Session(made.graph) as session:
        for target in (node, made.flush, made.close):
            with pytest.raises(fe.errors.NotFoundError, match="CreateSummaryFileWriter"):
                await session.run([], targets=[target])
        for target in (made.create, made.create, node, made.close):
            await session.run([], targets=[target])
        assert len(_events(tmp_path)) == 2
        with pytest.raises(fe.errors.NotFoundError, match="CloseSummaryWriter"):
            await session.run([], targets=[node])


@pytest.mark.parametrize("access", ["read", "none"])
async def test_nothing_is_written_where_that_is_not_allowed(tmp_path: Path, access: str) -> None:
    made = _Written(tmp_path / "run")
    async with fe.Session(made.graph, config=fe.Config(file_access=access)) as session:
        with pytest.raises(fe.errors.PermissionDeniedError, match="file_access"):
            await session.run([], targets=[made.create])
    assert not (tmp_path / "run").exists()


async def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    made = _Written(tmp_path / "file" / "run")
    async with fe.Session(made.graph) as session:
        with pytest.raises(fe.errors.NotFoundError, match="run"):
            await session.run([], targets=[made.create])


@pytest.mark.parametrize(
    ("op", "inputs", "message"),
    [
        ("WriteScalarSummary", ([b"a"], 1.0), "tag must be scalar"),
        ("WriteScalarSummary", (b"a", [1.0]), "value must be scalar"),
        ("WriteHistogramSummary", (b"a", np.array([np.nan], np.float32)), "Nan in summary histogram for: a"),
        ("WriteRawProtoSummary", (b"\xff",), "a Summary of 1 bytes"),
        ("WriteGraphSummary", (b"\xff",), "a GraphDef of 1 bytes"),
    ],
)
async def test_what_is_no_summary_is_refused(
    tmp_path: Path, op: str, inputs: tuple[Any, ...], message: str
) -> None:
    made = _Written(tmp_path)
    node = made.add(op, *inputs)
    async with fe.Session(made.graph) as session:
        await session.run([], targets=[made.create])
        with pytest.raises(fe.errors.InvalidArgumentError, match=message):
            await session.run([], targets=[node])
