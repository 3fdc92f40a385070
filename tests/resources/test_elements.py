"""Runs of elements say what lists of elements would, and are no containers for each of them."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from flowengine.data import Dataset
from flowengine.ir.proto import example_pb2
from flowengine.resources.elements import Element, ElementRun
from flowengine.resources.event_files import framed
from tests.collecting import Collections

ROWS = st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[st.integers()] * width), max_size=8))


@given(ROWS, st.integers(0, 9), st.integers(0, 9))
def test_runs_are_as_lists(elements: list[Element], start: int, stop: int) -> None:
    run = ElementRun.of(elements)
    assert len(run) == len(elements)
    assert list(run) == elements
    assert [run[place] for place in range(len(run))] == elements
    assert list(run.part(start, stop)) == elements[start:stop]
    assert list(run.part(start)) == elements[start:]
    assert list(run.part(0, start) + run.part(start)) == elements
    assert list(run) == elements, "what was taken out of it has changed nothing"
    joined = first = ElementRun()
    for part in (run.part(0, start), run.part(start), ElementRun()):
        joined += part
    assert joined is first
    assert list(joined) == elements
    grown = ElementRun()
    for element in elements:
        grown.append(element)
    assert list(grown) == elements


def test_a_run_grows_in_place() -> None:
    """Else a batch of elements that come one by one would be copied with each of them."""
    run, one = ElementRun(), ElementRun.of([(1,)])
    run += one
    (column,) = run.columns
    run += one
    assert run.columns[0] is column
    assert list(run) == [(1,), (1,)]
    assert list(one) == [(1,)]


def _example(number: int) -> bytes:
    example = example_pb2.Example()
    example.features.feature["x"].int64_list.value.append(number)
    return example.SerializeToString(deterministic=True)


async def _collections(dataset: Dataset) -> int:
    """How often the collector comes in 100 batches, once the pipeline is at work."""
    async with dataset.elements() as elements:
        for _ in range(10):
            await elements.__anext__()
        with Collections() as collections:
            for _ in range(100):
                await elements.__anext__()
        return collections.count


async def test_records_in_batches_leave_the_collector_nothing_to_do(tmp_path: Path) -> None:
    """A full collection holds up the host for as long as a program is large."""
    lines, records = tmp_path / "lines.txt", tmp_path / "records"
    lines.write_bytes(b"".join(b"line %d\n" % number for number in range(20_000)))
    records.write_bytes(b"".join(framed(_example(number)) for number in range(20_000)))
    texts = Dataset.text_lines(str(lines)).repeat()
    examples = Dataset.tf_records(str(records)).repeat()
    # A hundred batches of 512 are 51,200 records; seven hundred containers are a collection.
    assert await _collections(texts.batch(512)) <= 2
    assert await _collections(texts.batch(512).prefetch()) <= 2
    assert await _collections(examples.batch(512).prefetch()) <= 2
