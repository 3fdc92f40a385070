"""Surroundings that a process in a box has, reported by an op that a module of its own brings along."""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest
import trio

import flowengine as fe
from flowengine.core.errors import DeadlineExceededError, OpError
from flowengine.sandbox import confine

pytestmark = pytest.mark.skipif(
    bool(confine.missing()), reason=f"this machine has no whole box: {confine.missing()}"
)

_SIGNATURE: Final = "Surroundings() -> facts: string"

_OPS: Final = """
import ctypes, json, mmap, os, resource, socket, stat, struct, sys
from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry

registry().register(OpDef.parse("Surroundings() -> facts: string"))


def prctl(option):
    found = ctypes.c_int()
    value = ctypes.CDLL(None).prctl(option, ctypes.byref(found) if option == 2 else 0, 0, 0, 0)
    return found.value if option == 2 else value


def peer(descriptor):
    # Who made a pair of sockets.
    with socket.socket(fileno=os.dup(descriptor)) as each:
        return struct.unpack("3i", each.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]


def descriptors():
    found = []
    for each in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        try:
            s = os.fstat(each)
        except OSError:
            continue
        who = peer(each) if stat.S_ISSOCK(s.st_mode) else 0
        found.append((s.st_mode >> 12, s.st_dev, s.st_ino, s.st_rdev, who))
    return found


def can_execute():
    try:
        mmap.mmap(-1, 4096, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, prot=7).close()
    except OSError:
        return False
    return True


# The process may not ask so later.
BEFORE = {"dies_by": prctl(2), "is_dumpable": prctl(3), "gains_nothing": prctl(39)}


@kernel("Surroundings")
def surroundings():
    names = ("AS", "FSIZE", "CORE", "NOFILE")
    return json.dumps({
        "environment": dict(os.environ),
        "is_isolated": sys.flags.isolated,
        "leads_session": os.getsid(0) == os.getpid(),
        **BEFORE,
        "asks_later": prctl(3),
        "limits": {each: resource.getrlimit(getattr(resource, "RLIMIT_" + each))[0] for each in names},
        "pid": os.getpid(),
        "descriptors": descriptors(),
        "can_execute": can_execute(),
        "onednn": any(each.endswith("onednn.library") for each in sys.modules),
    }).encode()
"""

_DEVICES: Final = ("/dev/null", "/dev/urandom")
_SOCKET, _FILE, _CHARACTERS, _NOTHING, _PIPE = 0o14, 0o10, 0o2, 0, 0o1


@pytest.fixture
def graph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> fe.GraphBytes:
    (tmp_path / "surroundings.py").write_text(_OPS)
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    ops = fe.OpRegistry()
    ops.register(fe.OpDef.parse(_SIGNATURE))
    g = fe.Graph(registry=ops)
    getattr(g.ops, "Surroundings")(name="told")  # noqa: B009 (no stub knows it)
    return fe.GraphBytes(g.to_graph_def().SerializeToString())


async def _told(graph: fe.GraphBytes, **given: Any) -> dict[str, Any]:
    settings: dict[str, Any] = {"memory_bytes": 50_000_000, "seconds": 20, "spare": False}
    config = fe.Config.sandbox(**settings, imports=("surroundings",), **given)
    async with fe.Session(graph, config=config) as session:
        found: dict[str, Any] = json.loads(await session.run("told:0"))
        passage = session.elsewhere._process.passage
        found["shared"] = [_file(each.descriptor) for each in (passage._out, passage._into)]
    return found


def _file(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _open_here() -> set[tuple[int, int]]:
    """The files, pipes and sockets that this process has open."""
    found = set()
    for each in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        with suppress(OSError):
            if os.fstat(each).st_mode >> 12 not in (_NOTHING, _CHARACTERS):
                found.add(_file(each))
    return found


async def test_a_process_has_nothing_of_its_host(
    graph: fe.GraphBytes, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FLOWENGINE_SECRET", "secret")
    with (tmp_path / "open").open("w") as held:
        os.set_inheritable(held.fileno(), True)
        shared_here = _open_here()
        told = await _told(graph)
    assert "secret" not in told["environment"].values()
    assert told["environment"].keys() <= {
        "PATH",
        "LANG",
        "LC_CTYPE",
        "HOME",
        "FLOWENGINE_PLUGINS",
        "MALLOC_MMAP_THRESHOLD_",
        "MALLOC_TRIM_THRESHOLD_",
        "MALLOC_ARENA_MAX",
    } | {name for name in told["environment"] if name.startswith(("OPENBLAS", "OMP", "KMP", "MKL"))}
    assert told["is_isolated"] == 1
    assert told["leads_session"]
    assert told["dies_by"] == signal.SIGKILL
    assert told["is_dumpable"] == 0
    assert told["gains_nothing"] == 1
    assert told["asks_later"] == -1
    # The pair, the shared memory, /dev/null, and what its event loop is made of: no file of the host's.
    kinds: dict[int, list[tuple[int, ...]]] = {}
    for kind, *rest in told["descriptors"]:
        kinds.setdefault(kind, []).append(tuple(rest))
    assert kinds.keys() <= {_SOCKET, _FILE, _CHARACTERS, _NOTHING, _PIPE}
    assert {each[:2] for each in kinds[_FILE]} == set(told["shared"])
    assert {each[2] for each in kinds[_CHARACTERS]} <= {os.stat(each).st_rdev for each in _DEVICES}
    assert sorted(each[3] for each in kinds[_SOCKET] if each[3] != told["pid"]) == [os.getpid()]
    assert not (shared_here & {each[:2] for each in (*kinds[_SOCKET], *kinds.get(_PIPE, ()))})
    assert told["limits"]["CORE"] == 0
    assert told["limits"]["FSIZE"] == 0
    assert told["limits"]["NOFILE"] == 512
    assert (1 << 30) < told["limits"]["AS"] < (1 << 34)


@pytest.mark.parametrize("exec_memory", [True, False])
async def test_memory_is_executable_where_that_was_said(graph: fe.GraphBytes, exec_memory: bool) -> None:
    assert (await _told(graph, exec_memory=exec_memory))["can_execute"] == exec_memory


async def test_a_module_that_is_not_there_is_an_error_and_no_process_stays(graph: fe.GraphBytes) -> None:
    config = fe.Config.sandbox(memory_bytes=50_000_000, seconds=20, imports=("no_such_module",), spare=False)
    async with fe.Session(graph, config=config) as session:
        with pytest.raises(OpError):
            await session.run("told:0")


async def test_one_step_runs_at_a_time_unless_more_are_allowed() -> None:
    g = fe.Graph()
    queue = g.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    g.ops.QueueDequeueV2(queue, component_types=["float32"], name="taken")
    g.ops.QueueEnqueueV2(queue, [1.0], name="put")
    data = fe.GraphBytes(g.to_graph_def().SerializeToString())
    given: dict[str, Any]
    for given in ({}, {"max_steps": 2}):
        settings: dict[str, Any] = {"memory_bytes": 50_000_000, "seconds": 20, "spare": False}
        config = fe.Config.sandbox(**(settings | given))
        async with fe.Session(data, config=config) as session, trio.open_nursery() as nursery:
            await session.elsewhere.signatures()  # the process is there
            nursery.start_soon(session.run, "taken:0")
            while not session.elsewhere.running:
                await trio.lowlevel.checkpoint()
            if given:
                await session.run(["put"])
            else:
                with pytest.raises(DeadlineExceededError):
                    await session.run(["put"], options=fe.RunOptions(timeout_seconds=0.2))
            nursery.cancel_scope.cancel()


_HOST: Final = """
import sys
sys.path[:0] = sys.argv[1:]
import trio
import flowengine as fe

async def main():
    g = fe.Graph()
    g.constant(1.0, name="one")
    data = fe.GraphBytes(g.to_graph_def().SerializeToString())
    config = fe.Config.sandbox(memory_bytes=50_000_000, seconds=20, spare=False)
    async with fe.Session(data, config=config) as session:
        await session.run("one:0")
        print(session.elsewhere._process.pid, flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


def test_a_process_ends_with_its_host() -> None:
    folder = str(Path(fe.__file__).resolve().parents[1])
    with subprocess.Popen([sys.executable, "-c", _HOST, folder], stdout=subprocess.PIPE) as host:
        assert host.stdout is not None
        handle = os.pidfd_open(int(host.stdout.readline()))
        try:
            assert not select.select([handle], [], [], 0)[0]
            host.kill()
            assert select.select([handle], [], [], 60)[0] == [handle]
        finally:
            os.close(handle)
