"""Feeds of very many strings: the host has its turns meanwhile, deadline and cancellation are seen."""

from __future__ import annotations

from collections.abc import Callable
from time import thread_time
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.runtime.planning import large_string_feeds
from flowengine.runtime.planning.large_string_feeds import LONG, are_long, converted
from flowengine.runtime.planning.values import FeedSpec

_MANY = 400_000

_VALUES: dict[str, Callable[[], Any]] = {
    "list of str": lambda: [f"text {n}" for n in range(_MANY)],
    "list of bytes": lambda: [b"text %d" % n for n in range(_MANY)],
    "tuple of rows": lambda: ([("a", b"b")] * (_MANY // 2),),
    "few long rows": lambda: [["a"] * (_MANY // 4)] * 4,
    "object array": lambda: np.array([["a"] * 2] * (_MANY // 2), object),
    "unicode array": lambda: np.array(["abc"] * _MANY),
    "strided array": lambda: np.array([b"abc\0", b"d"] * _MANY)[::2],
}


def _graph() -> fe.Graph:
    g = fe.Graph()
    g.ops.Identity(g.placeholder("string", None, name="x"), name="y")
    g.ops.Size(g.tensor("x:0"), name="size")
    return g


class _Ticker:
    """A task that is always ready: the longest stretch of this thread's time between two of its turns."""

    def __init__(self) -> None:
        self.longest = 0.0
        self.turns = 0

    async def run(self) -> None:
        last = thread_time()
        while True:
            await trio.lowlevel.checkpoint()
            now = thread_time()
            self.longest = max(self.longest, now - last)
            self.turns += 1
            last = now


@pytest.mark.parametrize("name", sorted(_VALUES))
async def test_other_tasks_have_their_turns_meanwhile(name: str) -> None:
    value = _VALUES[name]()
    size = np.size(np.array(value, object))
    async with fe.Session(_graph()) as session, trio.open_nursery() as nursery:
        await session.run("size:0", {"x:0": [b"a"]})
        ticker = _Ticker()
        nursery.start_soon(ticker.run)
        await trio.lowlevel.checkpoint()
        # Making the plan took its time as well.
        ticker.longest = 0.0
        ticker.turns = 0
        assert await session.run("size:0", {"x:0": value}) == size
        await trio.lowlevel.checkpoint()
        # At once it is a stretch of 30 ms (bytes) to 100 ms (text); a slice is a millisecond.
        assert ticker.longest < 0.015
        assert ticker.turns > 10
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("name", sorted(_VALUES))
async def test_the_values_are_the_same(name: str) -> None:
    value = _VALUES[name]()
    spec = FeedSpec("x:0", dtypes.string)
    (found,) = await converted([spec], [value])
    wanted = spec.convert(value)
    assert found.shape == wanted.shape
    assert found.reshape(-1).tolist() == wanted.reshape(-1).tolist()


async def test_short_ones_beside_it_come_in_their_order() -> None:
    specs = [
        FeedSpec(f"x{n}:0", dtype) for n, dtype in enumerate([dtypes.string, dtypes.string, dtypes.int32] * 2)
    ]
    long = [b"text %d" % n for n in range(LONG + 1)]
    values = [[b"a", b"b"], long, [1, 2], long[1:], [b"c"] * (LONG + 2), 3]
    found = await converted(specs, values)
    assert [each.tolist() for each in found] == values


async def test_a_deadline_passes_while_it_is_fed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def waits_for_ever(specs: Any, values: Any) -> Any:
        await trio.sleep_forever()

    monkeypatch.setattr("flowengine.runtime.planning.session_plans.converted", waits_for_ever)
    async with fe.Session(_graph()) as session:
        value = [b"a"] * (LONG + 1)
        with pytest.raises(DeadlineExceededError, match=r"did not end within 0\.01 s"):
            await session.run("size:0", {"x:0": value}, options=fe.RunOptions(timeout_seconds=0.01))


class _Text(str):
    """A string that tells when it is read."""

    __slots__ = ("_read",)

    _read: Callable[[], object]

    def __new__(cls, read: Callable[[], object]) -> _Text:
        text = super().__new__(cls, "a")
        text._read = read
        return text

    def encode(self, *arguments: Any) -> bytes:
        self._read()
        return b"a"


async def test_a_cancelled_caller_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_string_feeds, "_SLICE", 0.0)
    read = []
    async with fe.Session(_graph()) as session:
        with trio.CancelScope() as scope:

            def notice() -> None:
                read.append(1)
                if len(read) == 3_000:
                    scope.cancel()

            await session.run("size:0", {"x:0": [_Text(notice)] * (4 * LONG)})
        assert scope.cancelled_caught
        assert len(read) < LONG
        assert await session.run("size:0", {"x:0": [b"a"]}) == 1


async def test_a_session_that_is_closed_meanwhile_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_string_feeds, "_SLICE", 0.0)
    session = fe.Session(_graph())
    await session.run("size:0", {"x:0": [b"a"]})
    reading = trio.Event()

    async def fed() -> None:
        with pytest.raises(fe.errors.CancelledError, match="closed"):
            await session.run("size:0", {"x:0": [_Text(reading.set)] * (4 * LONG)})

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fed)
        await reading.wait()
        await session.close()


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([b"a"] * LONG + [3], "Cannot feed int for 'x:0'"),
        ([["a", "b"]] * LONG + [["a"]], "Cannot feed list"),
        ([["a"] * LONG, ["a"]], "Cannot feed list"),
        ([["a"] * LONG, "a"], "Cannot feed"),
        ([1.5] * (LONG + 1), "Cannot feed float for 'x:0'"),
        (np.zeros(LONG + 1), "it holds float64"),
        (np.ma.masked_array(["a"] * (LONG + 1)), "some of it is masked"),
    ],
)
async def test_what_cannot_be_fed_is_refused_as_if_it_were_short(value: Any, message: str) -> None:
    spec = FeedSpec("x:0", dtypes.string)
    assert are_long([spec], [value])
    with pytest.raises(InvalidArgumentError, match=message):
        await converted([spec], [value])


async def test_a_shape_that_is_not_declared_is_refused() -> None:
    spec = FeedSpec("x:0", dtypes.string, TensorShape([2, None]))
    with pytest.raises(InvalidArgumentError, match=r"Cannot feed a value of shape \[32768, 1\]"):
        await converted([spec], [[["a"]] * (2 * LONG)])


async def test_a_list_that_changes_meanwhile_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_string_feeds, "_SLICE", 0.0)
    value = ["a"] * (4 * LONG)
    spec = FeedSpec("x:0", dtypes.string)

    async def shortened() -> None:
        await trio.lowlevel.checkpoint()
        del value[LONG:]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(shortened)
        with pytest.raises(InvalidArgumentError, match="'x:0' changed while it was read"):
            await converted([spec], [value])


@given(
    shape=st.lists(st.integers(0, 5), min_size=1, max_size=4),
    seed=st.integers(0, 1000),
    pieces=st.integers(1, 9),
)
def test_any_nesting_is_what_it_is_at_once(shape: list[int], seed: int, pieces: int) -> None:
    chance = np.random.default_rng(seed)
    array = np.empty(shape, object)
    array.reshape(-1)[:] = [[b"a", "b", "\0"][n] for n in chance.integers(0, 3, array.size)]
    spec = FeedSpec("x:0", dtypes.string)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(large_string_feeds, "_PIECE", pieces)
        patch.setattr(large_string_feeds, "LONG", 0)
        for value in (array, array.tolist()):
            found = trio.run(converted, [spec], [value])[0]
            wanted = spec.convert(value)
            assert found.shape == wanted.shape
            assert found.tolist() == wanted.tolist()
