"""Waiters at a step's table, which fail for a task that is lost, and for nothing else."""

from __future__ import annotations

from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.rendezvous import RendezvousKey
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.tensors.rendezvous import LocalRendezvous

LOST = ConnectionLostError("gone")
OVER = ConnectionLostError("the step is over")
tasks = st.sampled_from(["a", "b", "c"])


def key(task: str, edge: str) -> RendezvousKey:
    return RendezvousKey(5, f"/job:{task}/task:0/device:CPU:0", 0, edge, "/job:w/task:0/device:CPU:0")


def is_from_a(key: RendezvousKey) -> bool:
    return key.source_device.startswith("/job:a/")


@given(
    expected=st.lists(tasks, max_size=5),
    awaited=st.lists(tasks, max_size=5),
    held=st.lists(tasks, max_size=5),
    ends=st.booleans(),
)
def test_a_lost_task_fails_those_who_wait_for_it(
    expected: list[str], awaited: list[str], held: list[str], ends: bool
) -> None:
    """If the first waiter that fails ends the step, the others fail with it, each once."""
    table = LocalRendezvous()
    told: dict[tuple[str, int], list[Exception | None]] = {}

    def fail(what: tuple[str, int], error: Exception | None) -> None:
        told.setdefault(what, []).append(error)
        if ends and error is LOST:
            table.abort(OVER)

    def fail_one(number: int, value: Any, is_dead: bool, error: Exception | None) -> None:
        fail(("one", number), error)

    for number, task in enumerate(awaited):
        table.receive(key(task, f"one{number}"), partial(fail_one, number))
    routes = {key(task, f"all{number}")[1:5]: number for number, task in enumerate(expected)}
    table.expect(5, routes, lambda number, _, __, error: fail(("all", number), error))
    for number, task in enumerate(held):
        table.send(key(task, f"held{number}"), number, False)
    table.drop(is_from_a)
    if not ends:
        assert [n for n, task in enumerate(held) if table.holds(key(task, f"held{n}"))] == [
            n for n, task in enumerate(held) if task != "a"
        ]
    table.fail_waiters(is_from_a, LOST)
    waited = [(("one", n), task) for n, task in enumerate(awaited)]
    waited += [(("all", n), task) for n, task in enumerate(expected)]
    if ends and any(task == "a" for _, task in waited):
        assert set(told) == {what for what, _ in waited}
        assert all(len(errors) == 1 for errors in told.values())
        assert not table.waiting_keys()
    else:
        assert told == {what: [LOST] for what, task in waited if task == "a"}
        assert len(table.waiting_keys()) == sum(task != "a" for _, task in waited)
