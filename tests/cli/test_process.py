"""The command as a process of its own: start, pipes, signals, exit codes."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.doctor import version_line
from flowengine.cli.main import main

ROOT = Path(__file__).resolve().parent.parent.parent
COMMAND = [sys.executable, "-m", "flowengine"]


def environment(**more: str) -> dict[str, str]:
    inherited = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    return inherited | {"PYTHONPATH": str(ROOT)} | more


def call(*arguments: str, stdin: bytes = b"", **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [*COMMAND, *arguments], input=stdin, capture_output=True, env=environment(**more), check=False
    )


def test_version_and_examples(capsys: pytest.CaptureFixture[str]) -> None:
    done = call("--version")
    assert (done.returncode, done.stdout.decode()) == (0, f"{version_line()}\n")
    assert main([]) == 0
    said = capsys.readouterr().out
    assert sum(line.startswith("  flowengine ") for line in said.splitlines()) == 4
    assert main(["--help"]) == 0
    assert "inspect" in capsys.readouterr().out
    for verb in ("run", "inspect"):
        assert main([verb, "--help"]) == 0
        assert "GRAPH" in capsys.readouterr().out
    assert main(["no-such-verb"]) == failure.USAGE


def test_a_shell_may_ask_how_a_line_goes_on() -> None:
    done = call(_FLOWENGINE_COMPLETE="bash_source")
    assert done.returncode == 0
    assert b"_FLOWENGINE_COMPLETE=bash_complete" in done.stdout
    done = call(_FLOWENGINE_COMPLETE="bash_complete", COMP_WORDS="flowengine run --ou", COMP_CWORD="2")
    assert done.stdout.split() == [b"plain,--output"]


def test_a_value_from_standard_input(linear: str) -> None:
    done = call("run", linear, "--feed", "x=-", "--fetch", "y", "--json", stdin=b"[[3, 4]]")
    assert done.returncode == 0
    assert json.loads(done.stdout)["values"]["y:0"]["value"] == [[8.0]]
    assert done.stderr == b""


def _imported(*arguments: str) -> set[str]:
    """The modules that a command imports. Imports take most of the time of a small run."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "flowengine", *arguments],
        capture_output=True,
        env=environment(),
        check=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.decode().splitlines()}


def test_a_run_in_this_process_imports_nothing_of_clusters_and_pictures(linear: str) -> None:
    imported = _imported("run", linear, "-x", "x=[[3, 4]]", "-y", "y")
    assert "flowengine.session" in imported
    wrong = ("flowengine.cluster", "flowengine.transport.connection", "flowengine.gradients", "msgpack")
    assert imported.isdisjoint((*wrong, "flowengine.cli.pictures.writing"))


def test_help_imports_nothing_that_only_mistyped_commands_need() -> None:
    assert _imported("--help").isdisjoint(("difflib", "flowengine.cli.pictures"))


def test_a_graph_from_standard_input(linear: str) -> None:
    graph = Path(linear).read_bytes()
    done = call("run", "-", "--feed", "x=[[3, 4]]", "--fetch", "y", stdin=graph)
    assert (done.returncode, done.stdout) == (0, b"y:0  float32 [1, 1]\n[[8.]]\n")
    done = call("run", "-", "--feed", "x=-", "--fetch", "y", stdin=graph)
    assert done.returncode == failure.USAGE


def test_an_ascii_terminal_is_no_reason_to_fail(tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text('node { name: "a" op: "Größe" }', encoding="utf-8")
    done = call("run", str(path), PYTHONIOENCODING="ascii", PYTHONUTF8="0")
    assert done.returncode == 0


def test_a_closed_pipe_is_the_end_of_it(save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    for number in range(20_000):
        graph.ops.NoOp(name=f"a_node_with_a_rather_long_name_{number}")
        if number % 100 == 0:
            graph.placeholder("float32", [], name=f"a_placeholder_with_a_rather_long_name_{number}")
    path = save(graph)
    process = subprocess.Popen(
        [*COMMAND, "inspect", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    assert process.stdout is not None
    process.stdout.close()
    assert process.stderr is not None
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(), said) == (failure.CLOSED_PIPE, b"")


def interrupt(
    arguments: list[str], after: Callable[[subprocess.Popen[bytes]], None]
) -> tuple[int, float, str]:
    """Start, interrupt once `after` returns; (exit code, processor seconds until the end, standard error)."""
    ended_before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [*COMMAND, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment()
    )
    after(process)
    used = processor_seconds(process)
    process.send_signal(signal.SIGINT)
    try:
        _, said = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    whole = ended.ru_utime - ended_before.ru_utime + ended.ru_stime - ended_before.ru_stime
    return process.returncode, whole - used, said.decode()


def processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Return the processor seconds that a running process has used."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def first_line(process: subprocess.Popen[bytes]) -> None:
    assert process.stderr is not None
    assert process.stderr.readline()


def test_ctrl_c_in_a_loop_of_steps(counter: str) -> None:
    arguments = [
        "run",
        counter,
        "--init",
        "init",
        "--fetch",
        "count",
        "--steps",
        "100000000",
        "--every",
        "100",
    ]
    code, seconds, said = interrupt(arguments, first_line)
    assert code == failure.INTERRUPTED
    assert seconds < 1.0
    assert said.splitlines()[-1] == "error: interrupted"
    assert "Traceback" not in said


def test_ctrl_c_in_a_step_that_waits(save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], capacity=1, name="queue")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    graph.ops.QueueEnqueueV2(queue, [graph.constant(1.0)], name="put")
    graph.constant(0.0, name="zero")
    # The second step waits for ever; the first says so on standard error.
    arguments = ["run", save(graph), "--init", "put", "--fetch", "take", "--steps", "2", "--every", "1"]
    code, seconds, said = interrupt(arguments, first_line)
    assert code == failure.INTERRUPTED
    assert seconds < 1.0
    assert said == "error: interrupted\n"


@pytest.mark.slow
def test_ctrl_c_in_one_long_kernel(save: Callable[[fe.Graph], str], tmp_path: Path) -> None:
    graph = fe.Graph()
    a = graph.placeholder("float64", [None, None], name="a")
    product = graph.ops.MatMul(a, a)
    for _ in range(20):
        product = graph.ops.MatMul(product, a)
    graph.ops.Sum(product, [0, 1], name="sum")
    graph.ops.Shape(a, name="size")
    np.save(tmp_path / "a.npy", np.full((4000, 4000), 1e-4))
    arguments = ["run", save(graph), "--feed", f"a={tmp_path / 'a.npy'}", "--fetch", "size"]
    arguments += ["--final", "sum", "--steps", "2", "--every", "1"]

    def both_lines(process: subprocess.Popen[bytes]) -> None:
        first_line(process)
        first_line(process)

    code, seconds, _ = interrupt(arguments, both_lines)
    assert code == failure.INTERRUPTED
    # A product takes a second or more on each core, and twenty are left.
    assert seconds < 5.0


def test_a_bar_is_for_terminals_and_colour_is_for_those_who_want_it(counter: str) -> None:
    pty = pytest.importorskip("pty")
    for wanted in ({}, {"NO_COLOR": "1"}):
        main_end, terminal = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "run", counter, "--init", "init", "--fetch", "count", "--steps", "30000"],
            stdout=subprocess.DEVNULL,
            stderr=terminal,
            env=environment(TERM="xterm-256color", COLUMNS="100", **wanted),
        )
        os.close(terminal)
        said = b""
        while True:
            try:
                part = os.read(main_end, 65536)
            except OSError:
                break
            if not part:
                break
            said += part
        os.close(main_end)
        assert process.wait() == 0
        assert b"30000/30000" in said
        assert b"count 3e+04" in said
        assert (b"\x1b[38;" in said or b"\x1b[3" in said) == (not wanted)
