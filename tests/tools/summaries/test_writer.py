"""Writers of event files: what is in the files, when it is written, and that nothing is lost."""

from __future__ import annotations

import asyncio
import io
import logging
import os
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.core.files.access import Files
from flowengine.resources.event_files import (
    FILE_VERSION,
    EventFile,
    begin_file,
    event_path,
    first_event,
    framed,
)
from flowengine.tools.summaries import recorder
from tests.tools.summaries.events import events, files_of, message, parts, records, tensor_of, values

INVALID = fe.errors.InvalidArgumentError


def add_everything(writer: Any) -> None:
    graph = fe.Graph()
    graph.placeholder("float32", [None, 3], name="x")
    writer.add_graph(graph)
    writer.add_hparams({"rate": 0.1, "name": "a", "layers": 0, "bias": False}, metrics=["loss"], group="g")
    writer.add_scalar("loss", 0.5, 1, description="*mean*")
    writer.add_histogram("weights", np.arange(5.0), 2)
    writer.add_image("picture", np.zeros([1, 2, 2, 1]), 3)
    writer.add_audio("sound", np.zeros([1, 4, 1]), 4, sample_rate=8000)
    writer.add_text("note", "text", 5)
    writer.add_run_metadata(b"\x0a\x00", "step 6", 6)


EVERYTHING = [
    (0, "_hparams_/experiment", "hparams"),
    (0, "_hparams_/session_start_info", "hparams"),
    (1, "loss", "scalars"),
    (2, "weights", "histograms"),
    (3, "picture", "images"),
    (4, "sound", "audio"),
    (5, "note", "text"),
    (0, "_hparams_/session_end_info", "hparams"),
]


async def awaited(folder: Path) -> None:
    async with fe.summary.Writer(folder) as writer:
        add_everything(writer)
        await writer.flush()


def blocking(folder: Path) -> None:
    with fe.blocking.Writer(folder) as writer:
        add_everything(writer)
        writer.flush()


@pytest.mark.parametrize(
    "write",
    [lambda folder: trio.run(awaited, folder), lambda folder: asyncio.run(awaited(folder)), blocking],
    ids=["trio", "asyncio", "blocking"],
)
def test_a_file_has_all_that_was_added(write: Callable[[Path], None], tmp_path: Path) -> None:
    write(tmp_path / "new" / "run")
    found = events(tmp_path / "new" / "run")
    assert bytes(found[0][3]) == FILE_VERSION
    assert values(tmp_path / "new" / "run") == EVERYTHING
    (tagged,) = [event[8] for event in found if 8 in event]
    assert message(tagged) == {1: b"step 6", 2: b"\x0a\x00"}
    (ended,) = [value for event in found for value in parts(event.get(5, b""), 1) if b"session_end" in value]
    content = message(message(message(message(ended)[9])[1])[2])
    assert message(content[4])[1] == 1


def test_the_graph_has_the_shapes_of_its_outputs_and_no_large_constant(tmp_path: Path) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 500], name="x")
    kernel = graph.constant(np.random.default_rng(0).normal(size=(500, 2)).astype(np.float32), name="kernel")
    fe.matmul(x, kernel, name="y")
    graph.ops.NoOp(name="nothing")
    with fe.blocking.Writer(tmp_path) as writer:
        writer.add_graph(graph)
        with pytest.raises(INVALID, match="add_graph takes a"):
            writer.add_graph("graph.pb")
    (written,) = [bytes(event[4]) for event in events(tmp_path) if 4 in event]
    assert len(written) < 1000
    (tmp_path / "graph.pb").write_bytes(written)
    read = fe.Graph.load(tmp_path / "graph.pb")
    assert str(read["y"].attrs["_output_shapes"][0]) == "[?,2]"
    assert "_output_shapes" not in read["nothing"].attrs
    assert read["kernel"].attrs["value"].shape.dims == (500, 2)


def test_a_file_cut_anywhere_reads_up_to_its_last_whole_record(tmp_path: Path) -> None:
    with fe.blocking.Writer(tmp_path) as writer:
        for step in range(4):
            writer.add_scalar("loss", step, step)
    whole = files_of(tmp_path)[0].read_bytes()
    ends = np.cumsum([len(framed(record)) for record in records(whole)])
    for size in range(len(whole)):
        kept = int(np.searchsorted(ends, size, side="right"))
        found: list[bytes] = []
        try:
            found = records(whole[:size])
        except fe.errors.DataLossError:
            found = records(whole[: ends[kept - 1] if kept else 0])
        assert len(found) == kept


def test_what_was_added_is_written_where_a_cancellation_or_an_error_ends_the_block(tmp_path: Path) -> None:
    async def cancelled() -> None:
        with trio.CancelScope() as scope:
            async with fe.summary.Writer(tmp_path / "trio") as writer:
                add_everything(writer)
                scope.cancel()
                await trio.sleep_forever()

    async def cancelled_too() -> None:
        async def hold() -> None:
            async with fe.summary.Writer(tmp_path / "asyncio") as writer:
                add_everything(writer)
                held.set()
                await asyncio.Event().wait()

        held = asyncio.Event()
        task = asyncio.create_task(hold())
        await held.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    trio.run(cancelled)
    asyncio.run(cancelled_too())

    def failed() -> None:
        with fe.blocking.Writer(tmp_path / "blocking") as writer:
            add_everything(writer)
            raise KeyError("step")

    with pytest.raises(KeyError, match="step"):
        failed()
    for name in ("trio", "asyncio", "blocking"):
        assert values(tmp_path / name) == EVERYTHING
        assert b"\x22\x0b\x08\x02" in files_of(tmp_path / name)[0].read_bytes()  # the run has failed


EITHER = pytest.mark.parametrize("run", [trio.run, lambda main: asyncio.run(main())], ids=["trio", "asyncio"])


async def until(is_so: Callable[[], bool]) -> None:
    """Let other tasks run until something is so; TimeoutError after 20 seconds."""
    if trio.lowlevel.in_trio_task():
        with trio.fail_after(20):
            while not is_so():
                await trio.lowlevel.checkpoint()
        return
    async with asyncio.timeout(20):
        while not is_so():  # noqa: ASYNC110
            await asyncio.sleep(0)


def size_of(path: str) -> int:
    return os.stat(path).st_size


@EITHER
def test_a_task_writes_in_the_background(run: Callable[..., Any], tmp_path: Path) -> None:
    """After the time, and at once where many events wait; from another thread, too."""
    begun = len(framed(first_event(0.0)))

    async def main() -> None:
        async with fe.summary.Writer(tmp_path / "time", flush_seconds=0.001) as writer:
            writer.add_scalar("loss", 1, 1)
            await until(lambda: size_of(writer.path) > begun)
        async with fe.summary.Writer(tmp_path / "many", flush_seconds=1000) as writer:

            def add() -> None:
                for step in range(101):
                    writer.add_scalar("loss", 1, step)

            thread = threading.Thread(target=add)
            thread.start()
            await until(lambda: size_of(writer.path) > begun)
            thread.join()

    run(main)


@EITHER
def test_an_event_that_comes_during_a_write_is_written_at_once(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recorder, "_EVENTS_MAX", 0)
    written, may_end = threading.Event(), threading.Event()
    write_now = EventFile.write_now

    def write_slowly(file: EventFile) -> None:
        write_now(file)
        if not written.is_set():
            written.set()
            assert may_end.wait(60)

    monkeypatch.setattr(EventFile, "write_now", write_slowly)

    async def main() -> None:
        async with fe.summary.Writer(tmp_path, flush_seconds=1000) as writer:
            writer.add_scalar("loss", 1, 1)
            await until(written.is_set)
            before, passes = size_of(writer.path), iter(range(20))
            writer.add_scalar("loss", 1, 2)
            await until(lambda: next(passes, None) is None)  # the writing task has heard of it
            may_end.set()
            await until(lambda: size_of(writer.path) > before)

    run(main)


def test_a_writer_that_is_entered_again_begins_anew(tmp_path: Path) -> None:
    """Tags, tags of steps and hyperparameters are those of one run; each run has its own file."""
    writer = fe.blocking.Writer(tmp_path)
    with writer:
        writer.add_hparams({"rate": 0.1})
        writer.add_scalar("x", 1, 1)
        writer.add_run_metadata(b"", "step 1", 1)
    with writer:
        writer.add_hparams({"rate": 0.2})
        writer.add_text("x", "no number", 1)
        writer.add_run_metadata(b"", "step 1", 1)
    with writer:
        writer.add_scalar("y", 1, 1)
    ends = [b"_hparams_/session_end_info" in file.read_bytes() for file in files_of(tmp_path)]
    assert sorted(ends) == [False, True, True]


def test_a_restart_has_readers_forget_the_steps_that_are_made_again(tmp_path: Path) -> None:
    for restored in (None, 10, 0):
        with fe.blocking.Writer(tmp_path, restored_step=restored) as writer:
            writer.add_scalar("loss", 1, 11)
        opening = events(tmp_path)[1:-1]
        assert len(opening) == (0 if restored is None else 2)
        for event in opening:
            assert message(event[7]) == {1: 1}
            assert event[2] == (restored or 0) + 1


def test_a_file_after_a_restart_is_behind_those_of_a_clock_that_went_ahead(tmp_path: Path) -> None:
    ahead = Path(event_path(str(tmp_path), 9e9, ".old"))
    ahead.write_bytes(b"")
    with fe.blocking.Writer(tmp_path, restored_step=1) as writer:
        writer.add_scalar("loss", 1, 2)
        assert sorted([ahead, Path(writer.path)])[-1] == Path(writer.path)


def test_two_writers_of_a_folder_have_two_files(tmp_path: Path) -> None:
    with fe.blocking.Writer(tmp_path) as first, fe.blocking.Writer(tmp_path, suffix=".eval") as second:
        assert first.path != second.path
        assert second.path.endswith(".eval")
        assert first.logdir == second.logdir == str(tmp_path)
    with first:
        first.add_scalar("again", 1, 1)
    assert len(files_of(tmp_path)) == 3


def test_a_histogram_says_what_it_leaves_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), fe.blocking.Writer(tmp_path) as writer:
        for step in (1, 2):
            writer.add_histogram("h", [1.0, np.nan, np.inf, -np.inf], step)
        writer.add_histogram("h", [1.0], 3)
    assert [record.getMessage() for record in caplog.records] == [
        "the histogram 'h' of step 1 is without 3 NaN or infinities; 'h/not_finite' has their number"
    ]
    assert [(step, tag) for step, tag, _ in values(tmp_path)] == [
        *((1, "h"), (1, "h/not_finite"), (2, "h"), (2, "h/not_finite")),
        (3, "h"),
    ]
    assert struct.unpack("<f", tensor_of(tmp_path, "h/not_finite")[4]) == (3.0,)


def test_a_tag_has_one_kind_of_values(tmp_path: Path) -> None:
    graph = fe.Graph()
    with fe.blocking.Session(graph) as session:
        summary = session.run(graph.ops.ScalarSummary("loss", graph.constant(1.0)))
    with fe.blocking.Writer(tmp_path) as writer:
        writer.add_summary(summary, 1)
        writer.add_scalar("loss", 2.0, 2)
        with pytest.raises(INVALID, match="'loss' was used before, for scalars"):
            writer.add_text("loss", "low", 3)
        writer.add_text("note", "low", 3)
        with pytest.raises(INVALID, match="'note' was used before, for text"):
            writer.add_run_metadata(b"", "note", 3)
        writer.add_run_metadata(b"", "step", 3)
        with pytest.raises(INVALID, match="for the times of step 3"):
            writer.add_run_metadata(b"", "step", 3)
        with pytest.raises(INVALID, match="no Summary"):
            writer.add_summary(b"abc", 4)
    assert [(step, tag) for step, tag, _ in values(tmp_path)] == [(1, "loss"), (2, "loss"), (3, "note")]


def test_bad_arguments_write_nothing(tmp_path: Path) -> None:
    with fe.blocking.Writer(tmp_path) as writer:
        faults: list[tuple[Callable[[], None], str]] = [
            (lambda: writer.add_scalar("a", 1, -1), "step=-1"),
            (lambda: writer.add_scalar(b"\xff", 1, 1), "UTF-8"),  # type: ignore[arg-type]
            (lambda: writer.add_scalar("a", [1, 2], 1), "one number"),
            (lambda: writer.add_histogram("a", [1], 1, buckets=0), "buckets=0"),
            (lambda: writer.add_hparams({"a": [1]}), "'a' is a number"),  # type: ignore[dict-item]
            (lambda: writer.add_hparams({"a": 10**400}), "beyond float64"),
            (lambda: writer.add_hparams({}, metrics="loss"), r"write \['loss'\]"),
            (lambda: writer.add_run_metadata("text", "a", 1), "traced step"),
        ]
        for wrong, text in faults:
            with pytest.raises(INVALID, match=text):
                wrong()
        writer.add_hparams({"a": 1})
        with pytest.raises(fe.errors.FailedPreconditionError, match="another run"):
            writer.add_hparams({"a": 1})
    assert {tag for _, tag, _ in values(tmp_path) if not tag.startswith("_hparams_")} == set()
    for given in ({"restored_step": -1}, {"flush_seconds": 0}, {"suffix": "a/b"}):
        with pytest.raises(INVALID):
            fe.summary.Writer(tmp_path, **given)
    with pytest.raises(INVALID, match=r"fe\.summary\.Writer takes a path"):
        fe.summary.Writer(None)  # type: ignore[arg-type]


def test_a_writer_that_is_not_open_says_how_to_open_it(tmp_path: Path) -> None:
    with pytest.raises(fe.errors.FailedPreconditionError, match=r"async with fe\.summary\.Writer"):
        fe.summary.Writer(tmp_path).add_scalar("a", 1, 1)
    writer = fe.blocking.Writer(tmp_path)
    with writer, pytest.raises(fe.errors.FailedPreconditionError, match="open already"), writer:
        pass
    with pytest.raises(fe.errors.FailedPreconditionError, match=r"`with fe\.blocking\.Writer"):
        writer.flush()


@EITHER
def test_a_folder_that_cannot_be_made_is_an_error_at_the_beginning(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")

    async def main() -> None:
        with pytest.raises(fe.errors.OpError, match="file"):
            async with fe.summary.Writer(tmp_path / "file" / "run"):
                pass

    run(main)


class SmallDisk(io.FileIO):
    """A file on a disk with little room: what still fits is written, as on a real one."""

    room = 0

    def write(self, data: Any) -> int:
        if not SmallDisk.room:
            raise OSError(28, "No space left on device")
        some = memoryview(data)[: SmallDisk.room]
        SmallDisk.room -= len(some)
        return super().write(some)

    def truncate(self, size: int | None = None) -> int:
        assert size is not None
        SmallDisk.room += self.tell() - size
        return super().truncate(size)


def test_a_full_disk_leaves_whole_events_and_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "events"
    file = EventFile(str(path), SmallDisk(path, "a"), most=10, seconds=1, clock=lambda: 0.0)
    SmallDisk.room = 100
    file.add(b"a" * 50)
    file.write_now()
    file.add(b"b" * 50)
    with pytest.raises(OSError, match="No space"):
        file.write_now()
    assert records(path.read_bytes()) == [b"a" * 50]
    file.add(b"c")
    SmallDisk.room = 1000
    file.close()
    assert records(path.read_bytes()) == [b"a" * 50, b"b" * 50, b"c"]


@EITHER
def test_a_full_disk_ends_the_block_with_its_error(
    run: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Files, "append", lambda _, path: SmallDisk(path, "a"))

    async def main() -> None:
        async with fe.summary.Writer(tmp_path, flush_seconds=0.001) as writer:
            for step in range(10):
                writer.add_scalar("loss", 1, step)
            if run is trio.run:
                await trio.sleep_forever()
            await asyncio.Event().wait()

    SmallDisk.room = 100
    with pytest.raises(fe.errors.ResourceExhaustedError, match="No space"):
        run(main)
    assert len(events(tmp_path)) == 1


def test_a_write_that_is_cancelled_before_it_begins_forgets_no_event(tmp_path: Path) -> None:
    async def main() -> None:
        path, opened = begin_file(str(tmp_path), "")
        file = EventFile(path, opened, most=10, seconds=100)
        file.add(b"\x10\x01")
        with trio.CancelScope() as scope:
            scope.cancel()
            await file.write()
        file.close()

    trio.run(main)
    assert [event.get(2) for event in events(tmp_path)] == [None, 1]
