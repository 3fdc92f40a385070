"""Waits between streams, against a model that knows every access and every path between two."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from flowengine.devices.ordering import Ordering, StreamEvent
from tests.effort import examples

#: (what, stream, read blocks, written blocks, which earlier event)
Action = tuple[str, int, frozenset[int], frozenset[int], int]

BLOCKS = st.frozensets(st.integers(0, 3), max_size=2)
ACTIONS = st.tuples(
    st.sampled_from(["launch", "launch", "launch", "launch", "release", "host", "complete", "wait"]),
    st.integers(0, 3),
    BLOCKS,
    BLOCKS,
    st.integers(0, 30),
)


@dataclass
class Work:
    """A piece of work of the model: `after` are those that must end first, each directly."""

    stream: int
    event: StreamEvent | None
    after: set[int] = field(default_factory=set)


class Model:
    """All work with all reasons for its order; the host is a stream of its own, -1."""

    def __init__(self) -> None:
        self.works: list[Work] = []
        self.places: dict[StreamEvent, int] = {}
        self.last: dict[int, int] = {}
        #: {block: [(work, whether it wrote)]}
        self.accesses: dict[int, list[tuple[int, bool]]] = {}

    def add(self, stream: int, event: StreamEvent | None) -> int:
        """Work after all that the stream has been given, and after what the host has done by now."""
        work = Work(stream, event, {self.last[s] for s in (stream, -1) if s in self.last})
        self.works.append(work)
        self.last[stream] = len(self.works) - 1
        if event is not None:
            self.places[event] = len(self.works) - 1
        return len(self.works) - 1

    def reached(self, work: int, but: int | None = None) -> set[int]:
        """All that has ended when a piece of work begins; `but` one of its direct reasons."""
        seen: set[int] = set()
        ahead = [w for w in self.works[work].after if w != but]
        while ahead:
            at = ahead.pop()
            if at not in seen:
                seen.add(at)
                ahead.extend(self.works[at].after)
        return seen

    def conflicts(self, reads: frozenset[int], writes: frozenset[int]) -> set[int]:
        return {
            work
            for block in reads | writes
            for work, wrote in self.accesses.get(block, ())
            if wrote or block in writes
        }

    def check(self, work: int, waits: tuple[StreamEvent, ...], conflicts: set[int]) -> None:
        """Every conflict has ended by then, and without any one of the waits some had not."""
        reasons = self.works[work].after
        assert len(set(waits)) == len(waits)
        added = [self.places[event] for event in waits]
        assert not reasons & set(added)
        reasons.update(added)
        assert conflicts <= self.reached(work)
        for one in added:
            assert not conflicts <= self.reached(work, but=one)


@settings(max_examples=examples(400), deadline=None)
@given(st.lists(ACTIONS, max_size=40))
def test_every_conflict_is_ordered_and_no_wait_is_implied_by_others(program: list[Action]) -> None:
    ordering, model = Ordering(), Model()
    waiting: dict[int, set[int]] = {}
    for what, stream, reads, writes, which in program:
        events = list(model.places)
        if what == "launch":
            conflicts = model.conflicts(reads, writes)
            launch = ordering.launch(stream, reads, writes)
            work = model.add(stream, launch.event)
            model.works[work].after |= waiting.pop(stream, set())
            model.check(work, launch.waits, conflicts)
            for block in reads | writes:
                model.accesses.setdefault(block, []).append((work, block in writes))
        elif what == "release":
            # Given out again to the stream: its next work comes after all that the block has seen.
            for block in writes:
                conflicts = model.conflicts(frozenset(), frozenset([block]))
                waits = ordering.release(block, stream)
                for event in waits:
                    ordering.wait(stream, event)
                launch = ordering.launch(stream, writes=[block])
                assert launch.waits == ()
                work = model.add(stream, launch.event)
                model.works[work].after |= waiting.pop(stream, set())
                model.check(work, waits, conflicts)
                model.accesses[block] = [(work, True)]
        elif what == "host":
            conflicts = model.conflicts(reads, writes)
            waits = ordering.host_waits(reads, writes)
            model.check(model.add(-1, None), waits, conflicts)
            for event in waits:
                ordering.complete(event)
        elif what == "complete" and events:
            event = events[which % len(events)]
            known = next(e for e in model.places if e == event)
            ordering.complete(known)
            work = model.add(-1, None)
            model.works[work].after.add(model.places[known])
        elif what == "wait" and events:
            event = events[which % len(events)]
            ordering.wait(stream, event)
            if event.stream != stream:
                waiting.setdefault(stream, set()).add(model.places[event])
    ends = ordering.unfinished()
    assert not any(ordering.is_complete(end) for end in ends)
    assert not any(one is not other and one.implies(other) for one in ends for other in ends)
    for end in ends:
        ordering.complete(end)
    assert all(map(ordering.is_complete, model.places))


def test_a_copy_is_awaited_once() -> None:
    ordering = Ordering()
    copied = ordering.launch(1, writes=["x"])
    assert copied.waits == ()
    assert ordering.launch(0, reads=["x"], writes=["y"]).waits == (copied.event,)
    assert ordering.launch(0, reads=["x", "y"], writes=["z"]).waits == ()


def test_a_write_waits_for_the_readers_and_not_for_the_write_that_they_waited_for() -> None:
    ordering = Ordering()
    ordering.launch(0, writes=["x"])
    first = ordering.launch(1, reads=["x"]).event
    second = ordering.launch(2, reads=["x"]).event
    assert set(ordering.launch(3, writes=["x"]).waits) == {first, second}


def test_memory_goes_back_at_once_to_the_stream_that_used_it() -> None:
    ordering = Ordering()
    ordering.launch(0, writes=["x"])
    assert ordering.release("x", 0) == ()
    made = ordering.launch(0, writes=["x"]).event
    read = ordering.launch(1, reads=["x"]).event
    assert made.position == 2
    assert ordering.release("x", 0) == (read,)
    assert ordering.release("x", 0) == ()


def test_what_the_host_has_seen_is_asked_for_no_more() -> None:
    ordering = Ordering()
    first = ordering.launch(0, writes=["x"]).event
    second = ordering.launch(1, reads=["x"], writes=["y"]).event
    assert ordering.host_waits(reads=["x"]) == (first,)
    assert ordering.unfinished() == (second,)
    ordering.complete(second)
    assert ordering.is_complete(first)
    assert ordering.host_waits(reads=["x", "y"], writes=["x"]) == ()
    assert ordering.launch(2, writes=["x", "y"]).waits == ()
