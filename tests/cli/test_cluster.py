"""Clusters from the command line: tasks as processes, looked at, drained, used by a program beside them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli.main import main

pytestmark = [pytest.mark.slow, pytest.mark.everywhere]

_PROGRAM = """
import os, trio, numpy as np
import flowengine as fe

assert "key" not in os.environ["FLOWENGINE_TARGET"]

async def train():
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
        g.ops.Assign(v, g.constant(np.float32(2)), name="init")
    with g.device("/job:worker/task:0"):
        g.ops.Mul(v, v, name="y")
    async with fe.Session(g, target=os.environ["FLOWENGINE_TARGET"]) as session:
        await session.run([], targets=["init"])
        print("y =", await session.run("y:0"))

trio.run(train)
"""


_SEVEN = """
  attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { } int_val: 7 } } }
"""


def flowengine(*arguments: str) -> subprocess.Popen[str]:
    root = str(Path(fe.__file__).parents[1])  # a program beside the cluster may lie anywhere
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH", "")]))
    return subprocess.Popen(
        [sys.executable, "-m", "flowengine", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )


def test_a_program_beside_a_local_cluster(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(_PROGRAM)
    command = ["cluster", "up", "--local", "ps=1,worker=1", "--restart", "--", sys.executable, str(program)]
    process = flowengine(*command)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out == "y = 4.0\n"
    assert err.count("serves at") == 2


_KILLS_A_TASK = """
import glob, os, signal, trio, numpy as np
import flowengine as fe

g = fe.Graph()
with g.device("/job:ps/task:0"):
    v = g.ops.VariableV2(shape=[], dtype="float32", name="v")
    g.ops.Assign(v, np.float32(0), name="init")
    g.ops.AssignAdd(v, np.float32(1), name="add")

async def step(session, number):
    if not os.path.exists("killed") and number == 5:
        open("killed", "w").close()
        lists = glob.glob(f"/proc/{os.getppid()}/task/*/children")
        for each in " ".join(open(name).read() for name in lists).split():
            if b"ps" in open(f"/proc/{each}/cmdline", "rb").read().split(b"\\0"):
                os.kill(int(each), signal.SIGKILL)
    return await session.run("add:0")

async def train():
    target, folder = os.environ["FLOWENGINE_TARGET"], os.path.abspath("run")
    result = await fe.train.run_with_recovery(g, step, steps=8, directory=folder, save_steps=3, target=target)
    print(result.value, [(each.step, each.resumed) for each in result.restarts])

trio.run(train)
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="needs /proc to find a task's process")
def test_tasks_that_end_are_started_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text(_KILLS_A_TASK)
    monkeypatch.chdir(tmp_path)
    command = ["cluster", "up", "--local", "ps=1,worker=1", "--restart", "--", sys.executable, "program.py"]
    process = flowengine(*command)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert out == "8.0 [(5, 3)]\n"
    assert "/job:ps/task:0 ended with exit code -9" in err


def test_the_commands_exit_code_is_the_clusters(tmp_path: Path) -> None:
    process = flowengine("cluster", "up", "--local", "worker=1", "--", sys.executable, "-c", "exit(7)")
    process.communicate(timeout=120)
    assert process.returncode == 7


def test_status_drain_and_sigterm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cluster = flowengine("cluster", "up", "--local", "ps=1,worker=1", "--log-level", "info")
    try:
        assert cluster.stdout is not None
        file = cluster.stdout.readline().strip()
        target = cluster.stdout.readline().strip()
        assert target.startswith("flow://127.0.0.1:")
        asked = subprocess.run(
            [sys.executable, "-m", "flowengine", "cluster", "status", "--cluster", file, "--json"],
            capture_output=True,
            text=True,
            check=True,
        )
        document = json.loads(asked.stdout)
        assert sorted(document) == ["/job:ps/task:0", "/job:worker/task:0"]
        assert all(answer["worker"]["steps_running"] == 0 for answer in document.values())

        # In the cluster's folder nothing need be said of it, nor of its key.
        graph = tmp_path / "graph.pbtxt"
        graph.write_text('node { name: "y" op: "Const" ' + _SEVEN + "}")
        monkeypatch.chdir(Path(file).parent)
        capfd.readouterr()
        assert main(["cluster", "status"]) == 0
        assert main(["cluster", "target", "/job:worker/task:0"]) == 0
        *_, shown = capfd.readouterr().out.splitlines()
        assert shown.partition("?")[0] == target.partition("?")[0]
        address = target.removeprefix("flow://").partition("?")[0]
        for place in (
            address,
            "/job:worker/task:0",
            f"{target.partition('key_file')[0]}key_file=cluster.key",
        ):
            assert main(["run", str(graph), "--at", place, "--fetch", "y"]) == 0
            assert capfd.readouterr().out == "y:0 = 7\n"

        assert main(["cluster", "drain", "/job:ps/task:0", "--cluster", file]) == 0
        assert main(["cluster", "status", "--cluster", file]) == 0
        assert main(["cluster", "status", "--cluster", file, "--ready"]) == 1
        assert main(["cluster", "status", "--cluster", file, "--ready", "--task", "/job:worker/task:0"]) == 0
    finally:
        cluster.send_signal(signal.SIGINT)
        _, err = cluster.communicate(timeout=30)
    assert cluster.returncode == 130, err


def test_a_task_says_what_it_needs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["worker"]) == 2
    assert "TF_CONFIG" in capfd.readouterr().err
    file = tmp_path / "cluster.toml"
    file.write_text('[jobs]\nworker = ["127.0.0.1:7000"]\n')
    assert main(["worker", "--cluster", str(file), "--job", "worker"]) == 2
    assert main(["worker", "--cluster", str(file), "--job", "ps", "--task", "0"]) == 1
    assert "there are /job:worker/task:0" in capfd.readouterr().err
    assert main(["cluster", "up", "--local", "worker"]) == 2
    assert main(["cluster", "status"]) == 2
