"""Processes that wait: a session has the next one at once, whoever it was begun by, if it is of its kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
import trio
import trio.testing

import flowengine as fe
from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config
from flowengine.core.errors import UnavailableError
from flowengine.sandbox import confine, session, spares
from flowengine.sandbox.process import BoxProcess
from flowengine.sandbox.startup import start

needs_box = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)


class _Starts:
    """A record of the processes that start: in the foreground by sessions, and beside them for the next."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, making: Callable[..., Any] = start) -> None:
        self.made: list[BoxProcess] = []
        self.awaited = 0
        self._making = making
        self._done = trio.Event()
        monkeypatch.setattr(session, "start", self._foreground)
        monkeypatch.setattr(spares, "start", self._background)

    async def _foreground(self, config: Config, box: Sandbox) -> BoxProcess:
        self.awaited += 1
        made: BoxProcess = await self._making(config, box)
        return made

    async def _background(self, config: Config, box: Sandbox, *, warms: bool) -> BoxProcess:
        made: BoxProcess = await self._making(config, box, warms=warms)
        self.made.append(made)
        self._done.set()
        return made

    async def next(self) -> BoxProcess:
        """The next that is ready beside the sessions."""
        await self._done.wait()
        self._done = trio.Event()
        return self.made[-1]


def _config(**given: Any) -> fe.Config:
    settings: dict[str, Any] = {"memory_bytes": 50_000_000, "seconds": 20.0}
    return fe.Config.sandbox(**(settings | given))


def _graph(value: float = 1.0) -> fe.GraphBytes:
    g = fe.Graph()
    g.constant(value, name="one")
    return fe.GraphBytes(g.to_graph_def().SerializeToString())


@needs_box
async def test_a_session_for_each_request_has_its_process_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _Starts(monkeypatch)
    seen = set()
    for number in range(4):
        async with fe.Session(_graph(number), config=_config()) as each:
            assert await each.run("one:0") == number
            seen.add(each.incarnation)
            waits = await starts.next()
            assert waits.is_alive
            assert waits.incarnation not in seen
    # No process served two sessions, and only the first session waited for one.
    assert len(seen) == 4
    assert starts.awaited == 1
    assert [each.is_alive for each in starts.made] == [False, False, False, True]


@needs_box
async def test_a_process_of_another_kind_is_not_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    starts = _Starts(monkeypatch)
    async with fe.Session(_graph(), config=_config(read=root)) as first:
        assert await first.run("one:0") == 1
        waits = await starts.next()
    for given in ({}, {"read": root, "seconds": 21.0}, {"read": root, "spare": False}):
        async with fe.Session(_graph(), config=_config(**given)) as other:
            assert await other.run("one:0") == 1
            assert other.incarnation != waits.incarnation
            if given.get("spare", True):
                await starts.next()
    # What lies there under the name is another folder now, which the process may not open.
    root.rename(tmp_path / "old")
    root.mkdir()
    (root / "file").write_text("new")
    g = fe.Graph()
    g.ops.ReadFile(str(root / "file"), name="text")
    data = fe.GraphBytes(g.to_graph_def().SerializeToString())
    async with fe.Session(data, config=_config(read=root)) as last:
        assert await last.run("text:0") == b"new"
        assert last.incarnation != waits.incarnation
    assert waits.is_alive


@needs_box
async def test_a_process_that_nobody_wants_is_ended_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spares, "_KEPT_SECONDS", 0.0)
    starts = _Starts(monkeypatch)
    async with fe.Session(_graph(), config=_config()) as one, fe.Session(_graph(), config=_config()) as two:
        assert await one.run("one:0") == 1
        waits = await starts.next()
        assert await two.run("one:0") == 1
        assert two.incarnation == waits.incarnation
        waits = await starts.next()
        # As long as one of them is open, it is wanted.
        await one.close()
        assert await two.run("one:0") == 1
        assert waits.is_alive
    await waits.wait_ended()
    assert spares.current_spares()._spares == []


_MODULES: Final = """
import sys
from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry

registry().register(OpDef.parse("Brought() -> names: string", "stateful"))


@kernel("Brought")
def brought():
    return " ".join(sys.modules).encode()
"""


@needs_box
async def test_one_that_waits_has_brought_in_what_only_some_graphs_need(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "brought_in.py").write_text(_MODULES)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    ops = fe.OpRegistry()
    ops.register(fe.OpDef.parse("Brought() -> names: string", "stateful"))
    g = fe.Graph(registry=ops)
    getattr(g.ops, "Brought")(name="names")  # noqa: B009 (no stub knows it)
    data = fe.GraphBytes(g.to_graph_def().SerializeToString())
    starts, has = _Starts(monkeypatch), list[bool]()
    for _ in range(2):
        async with fe.Session(data, config=_config(imports=("brought_in",))) as each:
            names = (await each.run("names:0")).split()
            has.append(b"scipy.linalg" in names and b"flowengine.kernels.nn.convolution" in names)
            await starts.next()
    # The first process is there as early as it can be, and brings in what it is asked for.
    assert has == [False, True]


@needs_box
async def test_one_that_has_died_while_it_waited_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    starts = _Starts(monkeypatch)
    async with fe.Session(_graph(), config=_config()) as one:
        assert await one.run("one:0") == 1
        waits = await starts.next()
        waits.kill()
        await waits.wait_ended()
        one.elsewhere._process.kill()
        with pytest.raises(UnavailableError):
            await one.run("one:0")
        assert await one.run("one:0") == 1
        assert one.incarnation != waits.incarnation


async def test_what_cannot_be_started_beside_is_no_error_and_is_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def failing(config: Config, box: Sandbox, *, warms: bool) -> BoxProcess:
        raise UnavailableError("none") if box.seconds == 20 else OSError("no more descriptors")

    _Starts(monkeypatch, failing)
    shelf = spares.current_spares()
    for seconds in (20, 21):
        config = _config(seconds=seconds)
        box = config.box  # type: ignore[attr-defined]
        shelf.begin(config, box)
        assert shelf.take(config, box) is None
        await trio.testing.wait_all_tasks_blocked()
        assert shelf._spares == []
    assert caplog.messages == [
        "there is no spare sandbox: none",
        "there is no spare sandbox: no more descriptors",
    ]
