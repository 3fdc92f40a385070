"""Guarantees of a run's turns: Ctrl-C waits until the line is whole, and no step is kept alive."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.runtime.turn_queue import Ticket, TurnLine
from flowengine.runtime.turns import Turns, current_turns


class WatchedLine(TurnLine):
    """Notes of each change of the line whether Ctrl-C would have been raised in it."""

    __slots__ = ("protected",)

    def __init__(self) -> None:
        super().__init__()
        self.protected: list[bool] = []

    def note(self) -> None:
        self.protected.append(trio.lowlevel.currently_ki_protected())

    def run(self, ticket: Ticket, now: float) -> None:
        self.note()
        super().run(ticket, now)

    def give(self, ticket: Ticket) -> None:
        self.note()
        super().give(ticket)

    def join(self, ticket: Ticket) -> None:
        self.note()
        super().join(ticket)

    def open(self, now: float) -> None:
        self.note()
        super().open(now)

    def stop(self, ticket: Ticket, now: float) -> None:
        self.note()
        super().stop(ticket, now)

    def leave(self, ticket: Ticket) -> None:
        self.note()
        super().leave(ticket)


async def _arrive(turns: Turns) -> None:
    ticket = turns.new_ticket()
    await turns.arrive(ticket)
    turns.end(ticket)


async def _begin(turns: Turns) -> None:
    ticket = await turns.begin()
    assert ticket is not None
    turns.end(ticket)


async def _pause(turns: Turns) -> None:
    ticket = turns.new_ticket()
    await turns.pause(ticket)
    turns.end(ticket)


async def _stand_in_line(turns: Turns) -> None:
    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(_pause, turns)


async def _serve(turns: Turns) -> None:
    assert turns.serves()


async def _defer(turns: Turns) -> None:
    ticket, event = Ticket(), trio.Event()
    turns.defer(ticket, event.set)
    await event.wait()


async def _withdraw(turns: Turns) -> None:
    ticket = Ticket()
    turns.defer(ticket, lambda: None)
    turns.withdraw(ticket)


async def _call_off(turns: Turns) -> None:
    ticket = Ticket()
    turns.defer(ticket, lambda: None)
    turns.call_off(ticket)


@pytest.mark.parametrize(
    "use",
    [_arrive, _begin, _pause, _stand_in_line, _serve, _defer, _withdraw, _call_off],
    ids=lambda use: str(use.__name__).strip("_"),
)
def test_the_line_is_never_changed_by_halves(use: Callable[[Turns], object]) -> None:
    line = WatchedLine()

    async def main() -> None:
        turns = current_turns()
        turns.line = line
        assert not trio.lowlevel.currently_ki_protected()
        await use(turns)  # type: ignore[misc]

    trio.run(main)
    assert line.protected
    assert all(line.protected)


class Step:
    """A step that counts how often its turn comes."""

    def __init__(self) -> None:
        self.ticket = Ticket()
        self.calls = 0

    def go(self) -> None:
        self.calls += 1


async def test_a_step_that_was_called_is_not_kept() -> None:
    """Not even until garbage is collected: it may have large values."""
    turns = current_turns()
    step = Step()
    turns.defer(step.ticket, step.go)
    ends = weakref.ref(step)
    gc.disable()
    try:
        while not step.calls:
            await trio.lowlevel.checkpoint()
        del step
        await trio.lowlevel.checkpoint()
        assert ends() is None
    finally:
        gc.enable()


async def test_a_turn_that_comes_when_the_time_is_over_is_given_back(
    mock_clock: trio.testing.MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event loop stood still until the time was over, and the step is woken as if it were in time."""
    begin = Turns.begin
    begun: list[Ticket | None] = []

    async def late(turns: Turns) -> Ticket | None:
        begun.append(await begin(turns))
        mock_clock.jump(6)
        return begun[-1]

    g = fe.Graph()
    g.ops.Neg(g.placeholder("float32", [], name="x"), name="y")
    async with fe.Session(g) as session:
        await session.run("y:0", {"x:0": 1.0})
        monkeypatch.setattr(Turns, "begin", late)
        for _ in range(2):
            current_turns().line.begins_until = float("-inf")
            with pytest.raises(fe.errors.DeadlineExceededError, match="within 5 s"):
                await session.run("y:0", {"x:0": 1.0}, options=fe.RunOptions(timeout_seconds=5))
    assert begun
    assert current_turns()._tickets == 0
