"""Tracebacks of errors: they end in the user's line, and keep what a kernel of the user's own did."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable
from typing import Any

import pytest
import trio

import flowengine as fe
from flowengine.cluster.local import free_ports
from flowengine.core import tracebacks
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry
from flowengine.transport.wire.identity import new_key


def failing() -> fe.Graph:
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    graph.ops.Neg(x, name="y")
    graph.ops.Reshape(graph.ops.Neg([1.0, 2.0]), graph.placeholder("int32", [1], name="n"), name="shaped")
    return graph


def blocking(call: Callable[[Any], Any]) -> None:
    with fe.blocking.Session(failing()) as session:
        call(session)


def on_trio(call: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with fe.Session(failing()) as session:
            await call(session)

    trio.run(main)


def on_asyncio(call: Callable[[Any], Any]) -> None:
    async def main() -> None:
        async with fe.asyncio.Session(failing()) as session:
            await call(session)

    asyncio.run(main())


def at_a_target(call: Callable[[Any], Any]) -> None:
    """Over a connection: the master is a task of this process, but the client has a name of its own."""

    async def main() -> None:
        cluster = fe.ClusterSpec.of({"worker": [f"127.0.0.1:{free_ports(1)[0]}"]})
        async with (
            fe.Server(cluster, "worker", 0) as server,
            fe.Session(failing(), target=f"{server.target}?client=test") as session,
        ):
            await call(session)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FLOWENGINE_CLUSTER_KEY", new_key().hex())
        trio.run(main)


@pytest.mark.parametrize("way", [blocking, on_trio, on_asyncio, at_a_target])
@pytest.mark.parametrize(
    "call",
    [
        lambda session: session.run("y:0"),
        lambda session: session.run("nothing:0"),
        lambda session: session.run("y:0", {"x": "text"}),
        lambda session: session.run("shaped:0", {"n": [7]}),
        lambda session: session.make_callable("shaped:0", ["n"])([7]),
    ],
)
def test_the_last_line_is_the_users(way: Callable[[Any], None], call: Callable[[Any], Any]) -> None:
    with pytest.raises(fe.errors.OpError) as caught:
        way(call)
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert last.filename == __file__
    assert last.name in ("<lambda>", "main")
    text = "".join(traceback.format_exception(caught.value))
    assert "runtime/" not in text


def test_errors_while_a_graph_is_built_end_in_the_users_line() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2, 3], name="x")
    wrong: list[Callable[[], Any]] = [
        lambda: graph.ops.MatMul(x, x),
        lambda: graph.ops["MatMul"](x),
        lambda: graph.constant([1, 2], "float32", [3]),
        lambda: graph.tensor("nothing:0"),
        lambda: graph.create_op("Nothing"),
        lambda: graph.placeholder("floating"),
        lambda: fe.Graph.load("nothing.pb"),
        lambda: fe.Graph.from_graph_def(b"\xff\xff"),
        lambda: fe.Session(graph, target="nowhere://x"),
        lambda: fe.Session(graph).explain("nothing:0"),
    ]
    for call in wrong:
        with pytest.raises(fe.errors.OpError) as caught:
            call()
        frames = traceback.extract_tb(caught.value.__traceback__)
        assert frames[-1].filename == __file__, frames


def test_every_frame_is_there_if_asked_for() -> None:
    with tracebacks.shown_whole(), pytest.raises(fe.errors.OpError) as caught:
        blocking(lambda session: session.run("y:0"))
    assert len(traceback.extract_tb(caught.value.__traceback__)) > 5


def test_what_a_kernel_of_the_users_own_did_stays() -> None:
    ops = fe.OpRegistry(parent=registry())
    ops.register(fe.OpDef.parse("Halve(x: T) -> y: T", "T: {float, double}"))
    kernels = fe.KernelRegistry(parent=load_all())

    @kernels.kernel("Halve")
    def halve(x: Any) -> Any:
        raise ValueError("not to be halved")

    graph = fe.Graph(registry=ops)
    graph.ops["Halve"](graph.placeholder("float32", [], name="x"), name="half")
    with fe.blocking.Session(graph, kernels=kernels) as session, pytest.raises(fe.errors.OpError) as caught:
        session.run("half:0", {"x": 3.0})
    text = "".join(traceback.format_exception(caught.value))
    assert "in halve" in text
    assert "not to be halved" in text
