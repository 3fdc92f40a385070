"""Functions for trio programs that are called with the session of a script or of an asyncio program."""

from __future__ import annotations

import asyncio
import linecache
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe

InvalidArgumentError = fe.errors.InvalidArgumentError

#: {what a script may write with its session: what the error says to write}
BLOCKING = {
    "fe.train.loop(session, step, steps=3)": "fe.blocking.loop(session, step, steps=3)",
    "loop(session, step, steps=3)": "session.call(loop, step, steps=3)",
    "result = fe.train.loop(\n    session,\n    step,  # of the optimizer\n    steps=3,\n).steps": (
        "result = fe.blocking.loop(session, step, steps=3).steps"
    ),
    "saver.save(session, path, global_step=7)": "session.call(saver.save, path, global_step=7)",
    "fe.train.Saver().restore(session, path)": "session.call(fe.train.Saver().restore, path)",
    "names = saver.restore(session=session, path=path)": (
        "names = session.call(lambda session: saver.restore(session=session, path=path))"
    ),
    "saver.save(own.session, 'é' + path)": "own.session.call(saver.save, 'é' + path)",
    "fe.freeze(graph, session, ['y'])": "session.call(lambda session: fe.freeze(graph, session, ['y']))",
    "fe.saved_model.save(session, path, signatures={})": (
        "session.call(fe.saved_model.save, path, signatures={})"
    ),
    "fe.saved_model.restore(session, None)": "session.call(fe.saved_model.restore, None)",
    "fe.optimizers.lbfgs(session, loss)": "session.call(fe.optimizers.lbfgs, loss)",
    "fe.train.initialize_local_variables(session)": "session.call(fe.train.initialize_local_variables)",
    # Where the arguments do not show it, or there is no source, the call is shown without them.
    "saver.save(*[session, path])": "session.call(saver.save, ...)",
    "fe.train.loop(*[session, step])": "fe.blocking.loop(session, ...)",
    "fe.freeze(*[graph, session, []])": "session.call(fe.freeze, ...)",
    "fe.saved_model.save(*[session, path])": "session.call(fe.saved_model.save, ...)",
}

#: What an asyncio program may write, with and without its `await`.
AWAITED = {
    "await fe.train.loop(session, step, steps=3)": "await session.call(fe.train.loop, step, steps=3)",
    "path = saver.save(session, path)": "path = await session.call(saver.save, path)",
    "path = (await saver.save(session, path))[0]": "path = (await session.call(saver.save, path))[0]",
    "saver.save(*[session, path])": "await session.call(saver.save, ...)",
}


@pytest.fixture
def names() -> dict[str, Any]:
    """Return the names that the lines use, with their values."""
    graph = fe.Graph()
    total = graph.variable(np.float32(1), name="total")
    loss = fe.square(total.value(), name="loss")
    own = type("Own", (), {})()
    saver, loop = fe.train.Saver(), fe.train.loop
    step = total.assign_add_op(1.0)
    return {**locals(), "fe": fe, "path": "nowhere"}


def written(line: str) -> str:
    """Make lines a file that tracebacks and errors can read, and return its name."""
    name = f"<line {hash(line)}>"
    linecache.cache[name] = len(line), None, line.splitlines(keepends=True), name
    return name


def shown(error: pytest.ExceptionInfo[fe.errors.OpError]) -> str:
    """Return the line that an error says to write."""
    return error.value.message.partition("Write\n\n")[2].strip()


@pytest.mark.parametrize(("line", "mended"), BLOCKING.items())
def test_a_script_is_told_at_the_call_what_to_write(line: str, mended: str, names: dict[str, Any]) -> None:
    with fe.blocking.Session(names["graph"]) as session:
        names["own"].session = session
        with pytest.raises(InvalidArgumentError, match=r"flowengine\.blocking\.Session") as raised:
            exec(compile(line, written(line), "exec"), {**names, "session": session})
        assert shown(raised) == mended
        compile(mended.replace("...", "None"), "mended", "exec")
        with pytest.raises(InvalidArgumentError) as raised:
            exec(line, {**names, "session": session})
        assert shown(raised).endswith("...)"), "there is no source to read"


def test_what_a_script_is_told_to_write_runs(names: dict[str, Any], tmp_path: Any) -> None:
    names["path"] = str(tmp_path / "model")
    with fe.blocking.Session(names["graph"]) as session:
        session.initialize()
        for line in ("fe.train.loop(session, step, steps=3)", "saver.save(session, path, global_step=7)"):
            with pytest.raises(InvalidArgumentError) as raised:
                exec(compile(line, written(line), "exec"), {**names, "session": session})
            exec(shown(raised), {**names, "session": session})
        assert session.run(names["total"].value()) == 4
    assert fe.train.latest_checkpoint(str(tmp_path)) == f"{names['path']}-7"


@pytest.mark.parametrize(("line", "mended"), AWAITED.items())
@pytest.mark.parametrize("kind", [fe.asyncio.Session, fe.anyio.Session], ids=["asyncio", "anyio"])
def test_an_asyncio_program_is_told_likewise(
    kind: Any, line: str, mended: str, names: dict[str, Any]
) -> None:
    source = f"async def calls(session, path):\n    {line}\n"

    async def main() -> str:
        async with kind(names["graph"]) as session:
            scope = dict(names)
            exec(compile(source, written(source), "exec"), scope)
            with pytest.raises(InvalidArgumentError, match=kind._called) as raised:
                await scope["calls"](session, "nowhere")
            return shown(raised)

    assert asyncio.run(main()) == mended


def test_an_anyio_session_is_told_in_a_trio_program_too(names: dict[str, Any]) -> None:
    async def main() -> None:
        async with fe.anyio.Session(names["graph"]) as session:
            with pytest.raises(InvalidArgumentError) as raised:
                await names["saver"].save(session, "nowhere")
            assert "await session.call(names['saver'].save, 'nowhere')" in shown(raised)

    trio.run(main)


def test_functions_that_only_run_steps_take_sessions_that_are_awaited(names: dict[str, Any]) -> None:
    async def main() -> None:
        async with fe.asyncio.Session(names["graph"]) as session:
            await session.initialize()
            await fe.train.initialize_local_variables(session)
            frozen = await fe.freeze(names["graph"], session, ["loss"])
            assert "loss" in frozen

    asyncio.run(main())


def test_a_session_of_trio_is_taken(names: dict[str, Any]) -> None:
    async def main() -> None:
        async with fe.Session(names["graph"]) as session:
            result = await fe.train.loop(session=session, step=names["step"], steps=2)
            assert result.steps == 2

    trio.run(main)
    assert fe.train.loop.__name__ == "loop"
    assert str(fe.train.Saver.save.__doc__).startswith("Save under")


def test_queue_runners_and_snapshots_are_refused_at_once(names: dict[str, Any]) -> None:
    with fe.blocking.Session(names["graph"]) as session:
        given: Any = session
        with pytest.raises(InvalidArgumentError, match=r"with fe\.blocking\.QueueRunners\(session\)"):
            fe.train.QueueRunners(given)
        for method in ("snapshot", "names", "runs_nodes"):
            with pytest.raises(InvalidArgumentError, match=r"fe\.blocking\.Saver"):
                getattr(names["saver"], method)(given)
