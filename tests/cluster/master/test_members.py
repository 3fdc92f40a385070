"""A master's requests to all tasks of its cluster: its own without a message, each other one once."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import trio

from flowengine.cluster import messages as m
from flowengine.cluster.master.members import Members
from flowengine.core.errors import UnavailableError
from flowengine.transport.errors import ConnectionLostError
from flowengine.transport.wire.identity import Identity

HERE, THERE, ELSEWHERE = TASKS = tuple(f"/job:worker/task:{number}" for number in range(3))


class Asked:
    """A cluster of three tasks; notes what is asked of each."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, Any]] = []
        self.answers: dict[str, Any] = {task: {} for task in TASKS}
        self.unreachable: set[str] = set()
        self.lost: set[str] = set()
        #: Tasks whose connection is closed as soon as they have answered.
        self.closed: set[str] = set()
        worker: Any = SimpleNamespace(
            reset=self.reset,
            random_places=lambda sequences: self.note(HERE, m.RANDOM_PLACES, sequences),
            set_random_places=lambda sequences, places: self.note(
                HERE, m.SET_RANDOM_PLACES, (sequences, places)
            ),
            describe_devices=lambda: self.note(HERE, m.LIST_DEVICES, None) or [],
        )
        links: Any = SimpleNamespace(addresses=dict.fromkeys(TASKS), peer=self.peer)
        self.members = Members(Identity("worker", "cluster", HERE, 1), worker, links)

    async def reset(self, containers: Any) -> None:
        await trio.lowlevel.checkpoint()
        self.note(HERE, m.RESET, containers)

    def note(self, task: str, method: str, arguments: Any) -> Any:
        self.calls.append((task, method, arguments))
        return dict(self.answers[task])

    async def peer(self, task: str) -> Any:
        await trio.lowlevel.checkpoint()
        if task in self.unreachable:
            raise UnavailableError(f"{task} does not answer")

        async def call(method: str, arguments: Any, tensors: Any = ()) -> Any:
            await trio.lowlevel.checkpoint()
            if task in self.lost:
                raise ConnectionLostError("closed by the other side")
            answer = self.note(task, method, arguments)
            return SimpleNamespace(result=[] if method == m.LIST_DEVICES else answer)

        is_open = task not in self.closed
        return SimpleNamespace(identity=Identity("worker", "cluster", task, 5), is_open=is_open, call=call)


async def test_sequences_of_random_numbers_are_placed_on_every_task() -> None:
    asked = Asked()
    places = {"a": "1", "b": "2"}
    await asked.members.set_random_places(["a", "b"], places)
    message = m.SetRandomPlaces(["a", "b"], places).to_wire()
    assert asked.calls == [
        (HERE, m.SET_RANDOM_PLACES, (["a", "b"], places)),
        (THERE, m.SET_RANDOM_PLACES, message),
        (ELSEWHERE, m.SET_RANDOM_PLACES, message),
    ]


async def test_places_are_those_of_all_tasks() -> None:
    asked = Asked()
    asked.answers = {HERE: {"a": "1"}, THERE: {"b": "2"}, ELSEWHERE: {}}
    assert await asked.members.random_places(["a", "b"]) == {"a": "1", "b": "2"}
    assert [task for task, _, _ in asked.calls] == list(TASKS)


async def test_containers_are_cleared_on_every_task_and_no_further() -> None:
    asked = Asked()
    await asked.members.reset(["mine"])
    message = m.Reset(["mine"], everywhere=False).to_wire()
    assert asked.calls == [
        (HERE, m.RESET, ["mine"]),
        (THERE, m.RESET, message),
        (ELSEWHERE, m.RESET, message),
    ]


async def test_a_task_that_is_lost_meanwhile_is_named_with_the_link() -> None:
    asked = Asked()
    asked.lost.add(THERE)
    with pytest.raises(ConnectionLostError, match=f"{THERE} was lost; on the link from {HERE}: closed"):
        await asked.members.reset([])


async def test_devices_are_asked_for_once_and_again_of_those_that_were_lost() -> None:
    asked = Asked()
    asked.unreachable.add(THERE)
    with pytest.raises(UnavailableError, match=THERE):
        await asked.members.devices()
    asked.unreachable.clear()
    found = await asked.members.devices()
    assert {task: incarnation for task, (incarnation, _) in found.items()} == {
        HERE: 1,
        THERE: 5,
        ELSEWHERE: 5,
    }
    before = len(asked.calls)
    asked.members.lost.add(THERE)
    asked.unreachable.add(THERE)
    assert set(await asked.members.devices()) == set(TASKS), "a lost one counts with what it had"
    asked.unreachable.clear()
    await asked.members.devices()
    assert [task for task, _, _ in asked.calls[before:]] == [THERE]
    assert not asked.members.lost


async def test_who_is_lost_as_soon_as_it_has_answered_is_asked_again() -> None:
    asked = Asked()
    await asked.members.devices()
    asked.members.lost.add(THERE)
    asked.closed.add(THERE)
    await asked.members.devices()
    assert asked.members.lost == {THERE}, "it may have another life by now"
    asked.closed.clear()
    await asked.members.devices()
    assert not asked.members.lost
