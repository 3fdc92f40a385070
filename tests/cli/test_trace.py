"""`flowengine run --trace`, `--profile`, and `flowengine trace`."""

from __future__ import annotations

import errno
import json
import os
import queue
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio

import flowengine as fe
from flowengine.cli.main import main
from flowengine.cluster.local import free_ports
from flowengine.core.files.secrets import write_new
from flowengine.runtime.run_metadata import RunMetadata
from flowengine.transport.wire.identity import new_key

Output = pytest.CaptureFixture[str]


def called(capsys: Output, *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("more", [(), ("--steps", 3), ("--repeat", 6), ("--steps", 2, "--repeat", 6)])
def test_the_last_step_is_traced(
    capsys: Output, linear: str, tmp_path: Path, more: tuple[object, ...]
) -> None:
    file = tmp_path / "step.json"
    code, out, err = called(
        capsys, "run", linear, "-x", "x=[[1, 2]]", "-y", "y", *more, "--trace", file, "--profile"
    )
    assert (code, out) == (0, "y:0  float32 [1, 1]\n[[4.]]\n")
    assert f"traced the last step in {file}: " in err
    assert "MatMul" in err
    assert "AddV2" in err
    rows = json.loads(file.read_text())["traceEvents"]
    ran = [row["name"] for row in rows if row["ph"] == "X" and row["cat"] in {"kernel", "node"}]
    assert sorted(ran) == ["product", "y"]


def test_a_summary_of_a_file(capsys: Output, linear: str, tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    called(capsys, "run", linear, "-x", "x=[[1, 2]]", "-y", "y", "--trace", file)
    code, out, err = called(capsys, "trace", file, "--top", 1)
    assert (code, err) == (0, "")
    assert "longest work" in out
    assert "critical path" in out
    assert "busy" in out
    assert " in 1 more" in out
    code, out, _ = called(capsys, "trace", file, "--json")
    found = json.loads(out)
    assert code == 0
    assert set(found["work"]) == {"product", "y"}
    assert sum(found["critical_path"].values()) == pytest.approx(found["seconds"], rel=0.03)
    assert all(0 <= share <= 1.01 for share in found["busy"].values())


def test_a_failed_step_leaves_its_trace(
    capsys: Output, save: Callable[[fe.Graph], str], tmp_path: Path
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", None, name="x")
    graph.ops.Reshape(graph.ops.Neg(x, name="before"), [7], name="bad")
    file = tmp_path / "step.json"
    code, _, err = called(capsys, "run", save(graph), "-x", "x=[1]", "-y", "bad", "--trace", file)
    assert code == 1
    assert "traced the last step" in err
    rows = json.loads(file.read_text())["traceEvents"]
    assert {row["name"] for row in rows if row.get("cat") == "kernel"} == {"before", "bad"}
    assert [row["name"] for row in rows if "error" in row["args"]] == ["bad"]


@pytest.mark.parametrize("devices", [1, 2])
def test_a_step_that_hung_shows_what_it_waited_for(
    capsys: Output, save: Callable[[fe.Graph], str], tmp_path: Path, devices: int
) -> None:
    graph = fe.Graph()
    with graph.device("/cpu:0"):
        queue = graph.ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], name="empty")
        taken = graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")[0]
    with graph.device(f"/cpu:{devices - 1}"):
        graph.ops.Neg(taken, name="y")
    file = tmp_path / "step.json"
    run = ("run", save(graph), "-y", "y", "--timeout", "0.5", "--device-count", f"CPU={devices}")
    code, _, err = called(capsys, *run, "--trace", file)
    assert code == 6
    assert "did not end within 0.5 s" in err
    code, out, _ = called(capsys, "trace", file)
    assert code == 0
    unfinished = out.partition("\nunfinished at the end\n")[2].partition("\n\n")[0].splitlines()
    names = [line.partition(" ms  ")[2] for line in unfinished]
    at = [f" at /job:localhost/task:0/CPU:{number}" for number in range(devices)] if devices > 1 else [""]
    reason = f"fifoqueue 'empty' (QueueDequeueV2 'take'){at[0]}"
    assert reason in names
    if devices > 1:
        assert f"Recv of take:0 from /job:localhost/replica:0/task:0/device:CPU:0{at[1]}" in names
    code, out, _ = called(capsys, "trace", file, "--json")
    assert json.loads(out)["unfinished"][reason] > 0.1


@pytest.mark.parametrize("by", ["node", "scope", "line"])
def test_a_profile_by_other_things(capsys: Output, linear: str, by: str) -> None:
    code, _, err = called(capsys, "run", linear, "-x", "x=[[1, 2]]", "-y", "y", "--profile", by)
    assert code == 0
    assert {"node": "product", "scope": "(no scope)", "line": "(not known)"}[by] in err


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[tuple[str, ...]]:
    """A cluster of two tasks in another thread: the arguments that name its second task as the master."""
    key_file = tmp_path / "key"
    write_new(key_file, new_key().hex().encode())
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    spec = fe.ClusterSpec.of({"worker": addresses}, key_file=str(key_file))
    scopes: queue.Queue[tuple[trio.CancelScope, trio.lowlevel.TrioToken]] = queue.Queue()

    async def serve() -> None:
        with trio.CancelScope() as scope:
            async with fe.Server(spec, "worker", 0), fe.Server(spec, "worker", 1):
                scopes.put((scope, trio.lowlevel.current_trio_token()))
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    scope, token = scopes.get()
    yield "--at", f"flow://{addresses[1]}?key_file={key_file}"
    token.run_sync_soon(scope.cancel)
    thread.join()


def test_steps_over_tasks_are_traced_and_guarded(
    capsys: Output, save: Callable[[fe.Graph], str], tmp_path: Path, elsewhere: tuple[str, ...]
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    with graph.device("/job:worker/task:0"):
        log = graph.ops.Log(x, name="log")
    with graph.device("/job:worker/task:1"):
        graph.ops.Neg(log, name="y")
    file = tmp_path / "step.json"
    run = ("run", save(graph), "-y", "y", *elsewhere)
    code, _, err = called(capsys, *run, "-x", "x=[1, 1]", "--trace", file, "--profile", "node")
    assert code == 0
    assert f"traced the last step in {file}: " in err
    assert "log" in err
    code, out, _ = called(capsys, "trace", file)
    assert code == 0
    assert "Recv of log:0 from /job:worker/replica:0/task:0/device:CPU:0 at /job:worker/task:1/CPU:0" in out
    assert "MainThread" in out or "Thread-" in out
    assert "\ntasks\n  /job:worker/task:0  clock " in out
    assert " events  ended" in out
    code, out, _ = called(capsys, "trace", file, "--json")
    assert {part["outcome"] for part in json.loads(out)["tasks"].values()} == {"ended"}
    code, _, err = called(capsys, *run, "-x", "x=[1, 0]", "--guard")
    assert code == 1
    assert "guard: output 0 has 0 NaN and 1 infinities" in err
    assert "/job:worker/replica:0/task:0" in err


def test_a_file_whose_tasks_are_unreadable_is_refused(capsys: Output, tmp_path: Path) -> None:
    file = tmp_path / "step.json"
    file.write_text('{"traceEvents": [], "otherData": {"tasks": {"/job:a/task:0": 3}}}')
    code, _, err = called(capsys, "trace", file)
    assert code == 3
    assert "the tasks of this timeline are unreadable" in err


def test_the_holders_of_memory_at_the_peak(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None], name="x")
    wide = graph.ops.Tile(x, [1000], name="wide")
    graph.ops.Add(graph.ops.Sum(wide, 0, name="small"), graph.ops.Max(wide, 0, name="most"), name="y")
    path = save(graph)
    code, out, err = called(capsys, "run", path, "-x", "x=[1, 2]", "-y", "y", "--profile", "memory")
    assert (code, out) == (0, "y:0 = 3002.0\n")
    head, _, largest, *_ = err.splitlines()
    assert head.startswith("memory at the peak: 8,0")
    assert largest.split()[::2] == ["8,000", "wide"]
    many = ("--device-count", "CPU=2", "--log-device-placement")
    code, _, err = called(capsys, "run", path, "-x", "x=[1, 2]", "-y", "y", "--profile", "memory", *many)
    assert code == 0
    assert "device:CPU:0" in err, "it runs with the other settings, too"
    code, _, err = called(capsys, "run", path, "-y", "y", "--profile", "memory", "--at", "localhost:1")
    assert code == 2
    assert "--profile memory: the step runs at another task" in err


def test_what_cannot_be_traced_or_written_is_refused(capsys: Output, linear: str, tmp_path: Path) -> None:
    run = ("run", linear, "-x", "x=[[1, 2]]", "-y", "y")
    code, _, err = called(capsys, *run, "--trace", tmp_path / "nowhere" / "step.json")
    assert code == 2
    assert "there is no folder" in err
    (tmp_path / "there.json").write_text("mine")
    code, _, err = called(capsys, *run, "--trace", tmp_path / "there.json")
    assert code == 2
    assert "--force" in err
    assert (tmp_path / "there.json").read_text() == "mine"
    code, _, err = called(capsys, *run, "--profile", "colour")
    assert code == 2
    assert "colour" in err


def test_a_full_disk_leaves_no_part_of_a_trace(
    capsys: Output, linear: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill(metadata: RunMetadata) -> str:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(RunMetadata, "timeline", fill)
    file = tmp_path / "out" / "step.json"
    file.parent.mkdir()
    run = ("run", linear, "-x", "x=[[1, 2]]", "-y", "y", "--trace", file)
    code, _, err = called(capsys, *run)
    assert code == 1
    assert f"--trace {file}: No space left on device" in err
    assert list(file.parent.iterdir()) == []
    file.write_text("mine")
    assert called(capsys, *run, "--force")[0] == 1
    assert file.read_text() == "mine"


def test_a_trace_goes_where_a_shell_sends_it(capsys: Output, linear: str) -> None:
    run = ("run", linear, "-x", "x=[[1, 2]]", "-y", "y", "--trace", os.devnull, "--force")
    assert called(capsys, *run)[0] == 0
    assert not os.path.isfile(os.devnull)


def test_the_guard_names_the_node(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    graph.ops.Neg(graph.ops.Log(x, name="log"), name="y")
    path = save(graph)
    code, out, err = called(capsys, "run", path, "-x", "x=[1, 0]", "-y", "y", "--guard")
    assert (code, out) == (1, "")
    assert "guard: output 0 has 0 NaN and 1 infinities" in err
    assert "log" in err
    assert called(capsys, "run", path, "-x", "x=[1, 2]", "-y", "y", "--guard")[0] == 0
    code, _, err = called(capsys, "run", path, "-x", "x=[1, 2]", "-y", "y", "--guard", "--profile")
    assert code == 2
    assert "--guard goes without" in err


def test_a_file_that_is_no_trace(capsys: Output, tmp_path: Path) -> None:
    for text in ("{}", "no json", "[1]"):
        (tmp_path / "odd.json").write_text(text)
        code, out, err = called(capsys, "trace", tmp_path / "odd.json")
        assert (code, out) == (3, "")
        assert "this is no timeline of a step" in err
    code, _, err = called(capsys, "trace", tmp_path / "missing.json")
    assert code == 3
    assert "No such file" in err
