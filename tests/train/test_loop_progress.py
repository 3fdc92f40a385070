"""Progress that a loop shows: when, how fast, how long; and its cost for a step."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.train import training_loop
from flowengine.train.progress.loop_progress import LoopProgress
from flowengine.train.progress.screens import LogLines
from flowengine.train.progress.wording import ProgressStatus, duration, numbers_among, speed
from tests.tools.terminals import Terminal


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def logged(total: int | None = None) -> tuple[LoopProgress, Clock, io.StringIO]:
    clock, said = Clock(), io.StringIO()
    return LoopProgress(total, screen=LogLines(said), clock=clock), clock, said


def test_a_line_each_ten_seconds_and_one_at_the_end() -> None:
    progress, clock, said = logged(100)
    with progress:
        progress.begin(40)  # restored
        for step in range(41, 51):
            clock.now += 2.5
            progress.advance(step, lambda step=step: {"loss": np.float32(1 / step), "rows": np.arange(3)})  # type: ignore[misc]
    assert said.getvalue().splitlines() == [
        "step 44 of 100, 0.4 steps/s, 2:20 left, loss 0.02273",
        "step 48 of 100, 0.4 steps/s, 2:10 left, loss 0.02083",
        "step 50 of 100, 0.4 steps/s, took 25 s, loss 0.02",
    ]


def test_a_short_loop_shows_nothing() -> None:
    progress, clock, said = logged(3)
    with progress:
        progress.begin(0)
        for step in range(1, 4):
            clock.now += 3
            progress.advance(step, lambda: pytest.fail("nothing is read"))
    assert said.getvalue() == ""


def test_an_error_has_the_last_word() -> None:
    progress, clock, said = logged()

    def run() -> None:
        with progress:
            progress.begin(0)
            clock.now += 11
            progress.advance(1, dict)
            raise KeyError

    with pytest.raises(KeyError):
        run()
    assert said.getvalue() == "step 1, 0.0909 steps/s\n"


def test_the_rate_is_that_of_late_and_at_the_end_that_of_all() -> None:
    progress, clock, said = logged()
    with progress:
        progress.begin(0)
        for step in range(1, 101):  # one step a second, then ten
            clock.now += 1.0
            progress.advance(step, dict)
        for step in range(101, 1001):
            clock.now += 0.1
            progress.advance(step, dict)
    lines = said.getvalue().splitlines()
    assert lines[2].endswith(" 1 steps/s")
    assert lines[-2].endswith(" 10 steps/s")
    assert lines[-1].startswith("step 1000, 5.26 steps/s, took 3:10")


@given(st.lists(st.floats(0.001, 500), min_size=1, max_size=60), st.integers(1, 99))
def test_a_long_run_has_few_lines_and_every_minute_one(pauses: list[float], first: int) -> None:
    progress, clock, said = logged()
    shown: list[float] = []
    with progress:
        progress.begin(first)
        began = clock.now
        for number, pause in enumerate(pauses):
            clock.now += pause
            before = said.tell()
            progress.advance(first + number + 1, dict)
            if said.tell() != before:
                shown.append(clock.now)
            assert clock.now - (shown or [began])[-1] < 60
    times = [began, *shown]
    assert all(b - a >= 10 for a, b in pairwise(times))
    assert all(b - a >= min((a - began) / 10, 60) - 1e-6 for a, b in pairwise(times))
    assert len(said.getvalue().splitlines()) == (len(shown) + 1 if shown else 0)


@given(
    st.integers(0, 10**9),
    st.none() | st.integers(0, 10**9),
    st.none() | st.floats(1e-9, 1e9),
    st.floats(0, 1e9),
    st.dictionaries(st.text(max_size=30), st.floats() | st.integers(), max_size=5),
    st.text(max_size=20),
    st.integers(20, 200),
)
def test_a_line_is_no_wider_than_its_terminal(
    step: int,
    total: int | None,
    rate: float | None,
    seconds: float,
    numbers: dict[str, Any],
    label: str,
    columns: int,
) -> None:
    for is_complete in (False, True):
        status = ProgressStatus(step, total, rate, seconds, numbers, label.strip("\r\n"), is_complete)
        line = status.bar_line(columns)
        assert len(line) < columns
        assert line.isprintable() or not label.isprintable()
        coloured = status.bar_line(columns, has_colour=True)
        assert coloured.replace("\x1b[36m", "").replace("\x1b[0m", "") == line


def test_wide_names_count_twice() -> None:
    assert ProgressStatus(1, numbers={"損失" * 4: 1.0}).bar_line(27) == "step 1  損失損失損失損失 1"
    assert ProgressStatus(1, numbers={"損失" * 4: 1.0}).bar_line(26) == "step 1"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (3599.6, "1:00:00"), (90061, "1 d 1:01:01")],
)
def test_times_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_rates_have_no_exponents() -> None:
    assert [speed(each) for each in (123456.0, 100.0, 99.96, 4.3129, 0.043129)] == [
        "123456",
        "100",
        "100",
        "4.31",
        "0.0431",
    ]


def test_only_numbers_are_shown() -> None:
    values = {
        "a": np.float32(0.5),
        "b": np.array([3]),
        "c": np.arange(2),
        "d": b"text",
        "e": None,
        "f": [[1], [2, 3]],
        "g": True,
        "h": np.array(1 + 2j),
        "i": np.array(1.5, fe.dtypes.bfloat16.as_numpy_dtype),
        "j": np.zeros((), [("x", "f4")]),
    }
    assert numbers_among(values) == {"a": 0.5, "b": 3, "g": 1, "i": 1.5}


# -- of a loop --------------------------------------------------------------------------------------


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """Return the clock of every loop's progress."""
    made = Clock()

    def with_clock(total: int | None, *, quiet: bool = False) -> LoopProgress:
        return LoopProgress(total, quiet=quiet, clock=made)

    monkeypatch.setattr(training_loop, "LoopProgress", with_clock)
    return made


def slow_step(clock: Clock, seconds: float) -> Callable[[fe.Session, int], Any]:
    async def step(session: fe.Session, number: int) -> dict[str, float]:
        clock.now += seconds
        return {"loss": 1 / (number + 1)}

    return step


async def test_a_loop_says_how_far_it_is(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    async with fe.Session(fe.Graph()) as session:
        await fe.train.loop(session, slow_step(clock, 6.0), steps=3)
        await fe.train.loop(session, slow_step(clock, 6.0), steps=3, quiet=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.splitlines() == [
        "step 2 of 3, 0.167 steps/s, 6 s left, loss 0.5",
        "step 3 of 3, 0.167 steps/s, took 18 s, loss 0.3333",
    ]


async def test_fetched_tensors_and_evaluations_are_shown_by_their_names(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    graph = fe.Graph()
    total = graph.variable(0.0, name="total")
    others = {"two": graph.constant(2), "many": graph.constant([1, 2])}
    fetches = [fe.identity(total.assign_add(2.0), name="sum"), others]

    class Passing(fe.train.Hook):
        async def before_step(self, state: fe.train.LoopState) -> None:
            clock.now += 10.5

    async def evaluate(session: fe.Session) -> float:
        return 0.25

    async with fe.Session(graph) as session:
        hooks = [fe.train.Evaluation(evaluate, every_steps=1, name="score"), Passing()]
        await fe.train.loop(session, [], steps=1, fetches=fetches, hooks=hooks)
    first, last = capsys.readouterr().err.splitlines()
    assert first == "step 1 of 1, 0.0952 steps/s, 0 s left, sum 2, 1/two 2, score 0.25"
    assert last == "step 1 of 1, 0.0952 steps/s, took 10 s, sum 2, 1/two 2, score 0.25"


def test_a_script_s_loop_can_be_quiet(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with fe.blocking.Session(fe.Graph()) as session:
        fe.blocking.loop(session, slow_step(clock, 20.0), steps=1, quiet=True)
        assert capsys.readouterr().err == ""
        fe.blocking.loop(session, slow_step(clock, 20.0), steps=1)
    assert capsys.readouterr().err.splitlines()[-1] == "step 1 of 1, 0.05 steps/s, took 20 s, loss 1"


async def test_a_loop_that_fails_or_is_cancelled_gives_the_terminal_back(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Terminal()
    for name, value in (("TERM", "xterm"), ("NO_COLOR", "1"), ("COLUMNS", "80")):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", made)

    def failing(number: int) -> dict[str, Any]:
        clock.now += 1.0
        if number == 2:
            raise ZeroDivisionError
        return {}

    async with fe.Session(fe.Graph()) as session:
        with pytest.raises(ZeroDivisionError):
            await fe.train.loop(session, [], feeds=failing)
        assert sys.stderr is made
        assert made.rows == ["step 2  0.667 steps/s", ""]

        async def cancelling(session: fe.Session, number: int) -> None:
            clock.now += 1.0
            if number == 3:
                scope.cancel()

        with trio.CancelScope() as scope:
            await fe.train.loop(session, cancelling)
    assert sys.stderr is made
    assert made.rows[1:] == ["step 4  1 steps/s", ""]


async def test_loops_side_by_side_have_a_line_each(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    async with fe.Session(fe.Graph()) as session, trio.open_nursery() as nursery:
        for steps in (2, 3):
            nursery.start_soon(partial(fe.train.loop, session, slow_step(clock, 11.0), steps=steps))
    lines = capsys.readouterr().err.splitlines()
    assert all(line.startswith("step ") and line.count("step ") == 1 for line in lines)
    assert {line.partition(",")[0] for line in lines} >= {"step 2 of 2", "step 3 of 3"}
