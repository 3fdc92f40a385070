"""Which calls a task answers to whom: some are for the tasks of its cluster, some mean more of a client."""

from __future__ import annotations

from typing import Any

import pytest

import flowengine as fe
from flowengine.cluster import messages as m
from flowengine.cluster.credentials import CLIENT, WORKER
from flowengine.cluster.local import free_ports
from flowengine.transport.calls.service import IncomingCall
from flowengine.transport.wire.identity import Identity, new_key

TASKS = [f"/job:worker/task:{number}" for number in range(2)]


async def answer(server: fe.Server, role: str, method: str, arguments: Any) -> Any:
    """Call a task's handler as an identity of this role, the other task or a client; raise its error."""
    assert server._service is not None
    handler = server._service.service().find(method)
    request = IncomingCall(Identity(role, "flowengine", TASKS[1], 7), method, arguments, [])
    if handler.begin is not None:
        ended: list[BaseException | None] = []
        handler.begin(request, lambda result, error: ended.append(error))
        (error,) = ended
        if error is not None:
            raise error
        return None
    return await handler.function(request) if handler.is_async else handler.function(request)


@pytest.fixture
def server() -> fe.Server:
    """One of two tasks; the other does not run."""
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return fe.Server(fe.ClusterSpec.of({"worker": addresses}), "worker", 0, key=new_key())


@pytest.mark.parametrize(
    "method",
    [
        m.REGISTER_GRAPH,
        m.RUN_GRAPH,
        m.PROBE_STEP,
        m.GIVE_UP,
        m.END_STEPS,
        m.DEREGISTER_GRAPHS,
        m.FOLLOW_STEP,
        m.TAKE_PART,
    ],
)
async def test_what_is_between_tasks_is_refused_to_clients(server: fe.Server, method: str) -> None:
    async with server:
        with pytest.raises(fe.errors.PermissionDeniedError, match=f"'{method}' is for the tasks"):
            await answer(server, CLIENT, method, None)
        with pytest.raises(fe.errors.OpError) as caught:
            await answer(server, WORKER, method, None)
        assert not isinstance(caught.value, fe.errors.PermissionDeniedError), "only what it says is wrong"


async def test_to_a_task_it_answers_for_itself_and_to_a_client_for_the_cluster(server: fe.Server) -> None:
    calls = [
        (m.RESET, m.Reset(["mine"], everywhere=False), m.Reset(["mine"], everywhere=True)),
        (m.RANDOM_PLACES, m.RandomPlaces(["a"]), m.RandomPlaces(["a"])),
        (m.SET_RANDOM_PLACES, m.SetRandomPlaces(["a"], {}), m.SetRandomPlaces(["a"], {})),
        (m.LIST_DEVICES, None, None),
    ]
    async with server:
        for method, own, whole in calls:
            await answer(server, WORKER, method, None if own is None else own.to_wire())
            with pytest.raises(fe.errors.UnavailableError, match=TASKS[1]):
                await answer(server, CLIENT, method, None if whole is None else whole.to_wire())
