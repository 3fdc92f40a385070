"""The partitions of a step that wait for each other: whether all of them sleep, and what is given up then."""

from __future__ import annotations

from typing import Any, cast

import pytest

from flowengine.runtime.receives import Group, JointGroup, Receives


class Waiting:
    """An executor, the states of its items, and a Recv in it, by what is asked of them here."""

    def __init__(self, order: int = 0, tag: tuple[tuple[str, int], ...] = ()) -> None:
        self.order = self.serial = order
        self._tag = tag
        self.state = self
        self.given_up: list[Any] = []

    def tag(self) -> tuple[tuple[str, int], ...]:
        return self._tag

    def give_up(self, iteration: Waiting) -> None:
        self.given_up.append(iteration.tag())

    def wake(self) -> None:
        return


def begun(exchange: Receives, *tags: tuple[tuple[str, int], ...]) -> Waiting:
    """The executor of a partition whose Recvs wait in these iterations."""
    executor: Any = Waiting()
    exchange.serve(executor)
    for number, tag in enumerate(tags):
        receive: Any = Waiting(number, tag)
        exchange.awaited(receive, receive)
    return cast(Waiting, executor)


@pytest.mark.parametrize("kind", [Group, JointGroup])
def test_a_group_sleeps_when_all_have_begun_and_nobody_has_work(kind: type[Group]) -> None:
    class Partition:
        def places(self) -> list[object]:
            return []

    one, other = (cast(Receives, Partition()) for _ in range(2))
    group = kind()
    assert group.is_asleep is False
    group.join(one)
    group.join(other)
    assert group.is_asleep is False
    group.sleeps(one)
    assert group.is_asleep is False
    group.sleeps(other)
    assert group.is_asleep is True
    group.has_work(one)
    assert group.is_asleep is False
    group.leave(one, failed=False)
    assert group.is_asleep is True


def test_what_waits_innermost_and_longest_is_given_up_first() -> None:
    """One that is given up may set others free: those further out, and of later rounds, wait for that."""
    group = Group()
    one, other = Receives(group), Receives(group)
    outer, inner = (("outer", 3),), (("outer", 3), ("inner", 1))
    here = begun(one, (), outer, inner, (("outer", 3), ("inner", 0)))
    there = begun(other, outer, (("outer", 2), ("inner", 7)), (("outer", 3), ("inner", 0)))
    for place in ([("outer", 2), ("inner", 7)], [("outer", 3), ("inner", 0)], list(inner), list(outer), []):
        group.sleeps(one)
        group.sleeps(other)
        assert {tuple(place)} == set(here.given_up + there.given_up)
        here.given_up.clear()
        there.given_up.clear()
    assert not one.waiting
    assert not other.waiting


def test_of_a_step_that_fails_nothing_is_given_up() -> None:
    group = Group()
    failing, one, other = (Receives(group) for _ in range(3))
    begun(failing, ())
    executors = [begun(each, ()) for each in (one, other)]
    assert not one.is_settled()
    failing.finish(failed=True)
    for each in (one, other):
        assert not each.is_settled()
    assert not any(executor.given_up for executor in executors)


@pytest.mark.parametrize("kind", [lambda: Receives(JointGroup()), lambda: Receives(Group())])
def test_of_a_partition_that_is_over_nothing_waits(kind: Any) -> None:
    exchange = kind()
    executor = begun(exchange, (), (("loop", 1),))
    exchange.finish()
    assert exchange.places() == []
    exchange.come((0, 0), 1.0, False, None)
    assert executor.given_up == []
