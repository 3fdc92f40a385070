"""Random pipelines: one that goes on where another stood gives the same rest, wherever that was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.errors import OpError
from flowengine.resources.container import ResourceManager
from flowengine.resources.data.dataset import DataIterator, DatasetValue, Iteration
from tests.resources.data.states import state_read, state_written

Dataset = fe.data.Dataset
Stage = Callable[[fe.data.Dataset], fe.data.Dataset]


def text_of(number: fe.Tensor) -> fe.Tensor:
    return number.graph.ops.AsString(number)


def number_of(text: fe.Tensor) -> fe.Tensor:
    return text.graph.ops.StringToNumber(text, out_type=fe.dtypes.int64)


def checked(number: fe.Tensor) -> fe.Tensor:
    """The number; an error for each that ends in 7."""
    ops = number.graph.ops
    seven = ops.FloorMod(number, np.int64(10))
    return ops.Add(number, ops.Gather(np.zeros(7, np.int64), ops.FloorMod(seven, np.int64(8))))


#: Each takes and gives numbers (int64, rank 0).
STAGES: dict[str, Callable[[int], Stage]] = {
    "map": lambda n: lambda d: d.map(lambda x: x + n),
    "parallel map": lambda n: lambda d: d.map(lambda x: x * 3 - n, parallel=n + 1),
    "parsed": lambda n: lambda d: d.map(text_of).map(number_of, parallel=n).batch(n).unbatch(),
    "wrong ones": lambda n: lambda d: d.map(checked, parallel=n),
    "filter": lambda n: lambda d: d.filter(lambda x: x.graph.ops.NotEqual(x, np.int64(n))),
    "shuffle": lambda n: lambda d: d.shuffle(n + 1, seed=n + 3),
    "repeat": lambda n: lambda d: d.repeat(n),
    "shuffle and repeat": lambda n: lambda d: d.shuffle(2 * n, seed=5).repeat(n),
    "batches": lambda n: lambda d: d.batch(n).unbatch(),
    "prefetch": lambda n: lambda d: d.prefetch(n),
    "take": lambda n: lambda d: d.take(5 * n),
    "skip": lambda n: lambda d: d.skip(n),
    "shard": lambda n: lambda d: d.shard(n, n - 1),
    "cache": lambda n: lambda d: d.cache(),
    "concatenate": lambda n: lambda d: d.concatenate(Dataset.range(n)),
    "ignore errors": lambda n: lambda d: d.ignore_errors(),
}
PIPELINES = st.lists(st.tuples(st.sampled_from(sorted(STAGES)), st.integers(1, 4)), min_size=1, max_size=5)


async def taken(iterator: DataIterator, most: int) -> list[Any]:
    """The next elements and errors, None at the end."""
    found: list[Any] = []
    while len(found) < most:
        try:
            element = await iterator.next()
        except OpError as error:
            found.append(type(error).__name__)
        else:
            found.append(None if element is None else [int(np.asarray(part)) for part in element])
            if element is None:
                break
    return found


@given(PIPELINES, st.integers(0, 12), st.integers(0, 30))
def test_the_rest_is_the_same(stages: list[tuple[str, int]], count: int, place: int) -> None:
    def made() -> DatasetValue:
        dataset = Dataset.range(count)
        for name, number in stages:
            dataset = STAGES[name](number)(dataset)
        return dataset._source

    trio.run(go_on, made, place)


async def go_on(made: Callable[[], DatasetValue], place: int) -> None:
    """Compare a run that is asked where it stands, one that goes on there, and one that nobody disturbs.

    Each goes through a dataset of its own, as it does where the graph of a dataset is in a checkpoint.
    """
    resources = ResourceManager()
    resources.bind_to_current_run()
    whole, first, second = (Iteration(resources.services) for _ in range(3))
    expected = await taken(made().iterator(whole), 60)
    dataset = made()
    iterator = dataset.iterator(first)
    before = await taken(iterator, place)
    kept = state_read(state_written(await iterator.state()), dataset)
    after = await taken(iterator, 60 - len(before))
    other = made().iterator(second)
    await other.restore(kept)
    rest = await taken(other, 60 - len(before))
    for iteration in (whole, first, second):
        iteration.tasks.cancel()
        await iteration.tasks.ended()
    resources.close()
    await resources.ended()
    assert rest == after
    assert before + (after if before[-1:] != [None] else []) == expected
