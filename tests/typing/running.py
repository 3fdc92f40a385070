"""Uses of the values of steps for type checkers: read by mypy and pyright, never run."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, assert_type

import numpy as np

import flowengine as fe


def blocking(session: fe.blocking.Session, x: fe.Tensor, anything: Any) -> None:
    assert_type(session.run(x), Any)
    assert_type(session.run("x:0", {x: 1.0}), Any)
    assert_type(session.run([x, "y:0"]), list[Any])
    assert_type(session.run({"x": x, "y": [x]}, {"z": 2}, targets=["train"]), dict[str, Any])
    assert_type(session.run({1: x}, options=fe.RunOptions(timeout_seconds=3)), dict[int, Any])
    assert_type(session.run(anything), Any)
    assert_type(session.run(np.array(1)), Any)
    session.run(None, targets=[x.op])
    loss: np.floating[Any] = session.run(x)
    print(loss)


async def awaited(
    trio: fe.Session, aio: fe.asyncio.Session, either: fe.anyio.Session, x: fe.Tensor, anything: Any
) -> None:
    assert_type(await trio.run(x), Any)
    assert_type(await trio.run([x, x]), list[Any])
    assert_type(await trio.run(anything), Any)
    assert_type(await trio.run({"x": x}, run_metadata=fe.RunMetadata()), dict[str, Any])
    assert_type(await aio.run([x]), list[Any])
    assert_type(await aio.run({"x": x}), dict[str, Any])
    assert_type(await either.run([x]), list[Any])
    assert_type(await either.run({"x": x}), dict[str, Any])


async def models(graph: fe.Graph) -> None:
    with fe.blocking.load_saved_model("export") as model:
        assert_type(model(x=1), dict[str, Any])
        assert_type(model.close(), None)
    async with await fe.saved_model.load("export") as model_of_trio:
        assert_type(model_of_trio(1), Awaitable[dict[str, Any]])
        assert_type(await model_of_trio(1), dict[str, Any])
    async with await fe.asyncio.load_saved_model("export") as model_of_asyncio:
        assert_type(await model_of_asyncio(x=1), dict[str, Any])
    named: fe.saved_model.Model = model
    print(named, graph)


def wrong(session: fe.blocking.Session, x: fe.Tensor) -> None:
    session.run()  # type: ignore
    session.run(x, feeds={x: 1})  # type: ignore
    session.run([x], options={"timeout_seconds": 1})  # type: ignore
    print(session.run([x]).shape)  # type: ignore
    float(x)  # type: ignore
    x[0] = 1  # type: ignore
    x.numpy()  # type: ignore
    fe.Adam(0.1)  # type: ignore
    fe.train.AdamOptimizer(0.1)  # type: ignore
    fe.optimizers.adm(0.1)  # type: ignore
    with fe.Session():  # type: ignore
        pass
