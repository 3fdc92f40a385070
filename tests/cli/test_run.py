"""`flowengine run`, called as a function: what it prints, keeps and returns."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.cli.running.steps import percentiles

pytestmark = pytest.mark.everywhere

Output = pytest.CaptureFixture[str]


def run(capsys: Output, *arguments: object) -> tuple[int, str, str]:
    """(exit code, standard output, standard error)."""
    code = main(["run", *map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def fails(capsys: Output, code: int, *arguments: object) -> str:
    """The one line on standard error of a command that ends with this code and prints nothing else."""
    got, out, err = run(capsys, *arguments)
    assert (got, out) == (code, ""), err
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    return err


def test_a_value_goes_in_and_a_value_comes_out(capsys: Output, linear: str) -> None:
    assert run(capsys, linear, "--feed", "x=[[1, 2]]", "--fetch", "y") == (
        0,
        "y:0  float32 [1, 1]\n[[4.]]\n",
        "",
    )
    assert run(capsys, linear, "--feed", "x:0=[[1, 2]]", "--fetch", "y:0")[0] == 0


def test_several_fetches_in_order(capsys: Output, linear: str) -> None:
    code, out, _ = run(capsys, linear, "--feed", "x=[[1, 2]]", "--fetch", "shape", "--fetch", "product")
    assert code == 0
    assert out == "shape:0  int32 [2]\n[1, 1]\nproduct:0  float32 [1, 1]\n[[3.]]\n"


def test_inner_tensors_can_be_fed(capsys: Output, linear: str) -> None:
    code, out, _ = run(capsys, linear, "--feed", "product=[[5]]", "--fetch", "y")
    assert (code, out) == (0, "y:0  float32 [1, 1]\n[[6.]]\n")


def test_a_bare_name_is_the_only_output(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    halves = graph.ops.Split(0, graph.constant([1.0, 2.0]), num_split=2, name="halves")
    graph.ops.Neg(halves[1], name="y")
    path = save(graph)
    assert run(capsys, path, "--fetch", "halves", "--feed", "halves:1=[5]", "--fetch", "y")[0] == 0
    message = fails(capsys, failure.BAD_FEED, path, "--fetch", "y", "--feed", "halves=[5]")
    assert "has 2 outputs: write halves:0 to halves:1" in message


def test_short_options(capsys: Output, linear: str, tmp_path: Path) -> None:
    path = tmp_path / "y.json"
    assert run(capsys, linear, "-x", "x=[[1, 2]]", "-y", "y", "-t", "product", "-n", 2, "-o", path)[0] == 0
    assert json.loads(path.read_text())["values"]["y:0"]["value"] == [[4.0]]


def test_the_best_classes_by_name(capsys: Output, save: Callable[[fe.Graph], str], tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.ops.Softmax(graph.placeholder("float32", [None, 3], name="x"), name="scores")
    path, labels = save(graph), tmp_path / "labels.txt"
    labels.write_text("cat\ndog\nEgyptian cat\n")
    feed = ["-x", "x=[[0, 2, 1]]", "-y", "scores", "--labels", labels]
    code, out, _ = run(capsys, path, *feed, "--top", 2)
    assert code == 0
    assert out.splitlines() == [
        "scores:0  the 2 best of 3",
        "     0.6652      1  dog",
        "     0.2447      2  Egyptian cat",
    ]
    document = json.loads(run(capsys, path, *feed, "--json")[1])
    assert [each["label"] for each in document["best"]["scores:0"][0]] == ["dog", "Egyptian cat", "cat"]
    two = run(capsys, path, "-x", "x=[[0, 2, 1], [NaN, 0, 5]]", "-y", "scores", "--top", 1)[1]
    assert two.splitlines()[:3] == ["scores:0  the best of 3", "  row 0", "     0.6652      1"]
    labels.write_text("cat\ndog\n")
    message = fails(capsys, failure.STEP_ERROR, path, *feed)
    assert "no value has 2 numbers in its last dimension (scores:0 [?,3])" in message


def test_an_interrupted_run_keeps_what_output_promised(
    counter: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    from flowengine.cli.progress import ProgressReport

    advance = ProgressReport.advance

    def interrupting(progress: ProgressReport, values: Mapping[str, object]) -> None:
        advance(progress, values)
        if progress.done == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressReport, "advance", interrupting)
    for option, name in (("--fetch", "count"), ("--final", "read")):
        path = tmp_path / f"{name}.npz"
        arguments = ["--init", "init", "--target", "count", option, name, "--steps", 10**7, "-o", path]
        code, _, err = run(capsys, counter, *arguments)
        assert code == failure.INTERRUPTED
        assert err.splitlines() == [f"kept 1 value in {path}", "error: interrupted"]
        assert np.load(path)[f"{name}:0"] >= 3


def test_without_fetches_it_says_how_to_go_on(capsys: Output, linear: str) -> None:
    code, out, err = run(capsys, linear)
    assert (code, err) == (0, "")
    assert "x:0  float32 [?,2]" in out
    assert "shape:0  int32 [2]" in out
    assert f"flowengine run {linear} --feed x=SOURCE --fetch " in out


def test_steps_share_a_session_and_the_last_values_are_shown(capsys: Output, counter: str) -> None:
    code, out, err = run(capsys, counter, "--init", "init", "--steps", 5, "--fetch", "count")
    assert (code, out) == (0, "count:0 = 5.0\n")
    assert "5 steps in" in err


def test_every_so_many_steps_the_scalars_are_said(capsys: Output, counter: str) -> None:
    _, out, err = run(
        capsys, counter, "--init", "init", "--steps", 10, "--every", 4, "--fetch", "count", "--fetch", "step"
    )
    lines = [line for line in err.splitlines() if line.startswith("step ")]
    assert lines == [
        "step  1/10  count 1  step 1",
        "step  4/10  count 4  step 1",
        "step  8/10  count 8  step 1",
        "step 10/10  count 10  step 1",
    ]
    assert out == "count:0 = 10.0\nstep:0 = 1.0\n"


def test_targets_run_for_their_effect(capsys: Output, counter: str) -> None:
    code, out, _ = run(
        capsys, counter, "--init", "init", "--target", "count", "--steps", 3, "--final", "read"
    )
    assert (code, out) == (0, "read:0 = 3.0\n")
    code, out, err = run(capsys, counter, "--target", "init")
    assert (code, out) == (0, "")
    assert "1 step in" in err


def test_feeds_reach_initializers(capsys: Output, counter: str) -> None:
    code, out, _ = run(
        capsys, counter, "--init", "init", "--init", "count", "--feed", "step=2", "--final", "read"
    )
    assert (code, out) == (0, "read:0 = 2.0\n")


def test_repeat_says_how_long_steps_took(capsys: Output, counter: str) -> None:
    code, out, err = run(capsys, counter, "--init", "init", "--fetch", "count", "--repeat", 20)
    assert (code, out) == (0, "count:0 = 21.0\n")
    assert err.startswith("20 runs, ms: min ")
    for word in ("p50", "p90", "p99", "max", "mean"):
        assert word in err


def test_percentiles_are_values_that_occurred() -> None:
    found = percentiles([float(v) for v in range(100, 0, -1)])
    assert found == {"min": 1, "p50": 50, "p90": 90, "p99": 99, "max": 100, "mean": 50.5}
    assert set(percentiles([2.0]).values()) == {2.0}


def test_json_is_one_document(capsys: Output, counter: str) -> None:
    code, out, _ = run(capsys, counter, "--init", "init", "--fetch", "count", "--repeat", 2, "--json")
    assert code == 0
    document = json.loads(out)
    assert document["values"] == {"count:0": {"dtype": "float32", "shape": [], "value": 3.0}}
    assert document["steps"] == 1
    assert set(document["latency_ms"]) == {"min", "p50", "p90", "p99", "max", "mean"}


def test_what_is_kept_can_be_fed(capsys: Output, linear: str, tmp_path: Path) -> None:
    kept = tmp_path / "kept.npz"
    code, out, err = run(
        capsys, linear, "--feed", "x=[[1, 2]]", "--fetch", "product", "--final", "product", "--output", kept
    )
    assert (code, out) == (0, "")
    assert "kept 1 value" in err
    assert run(capsys, linear, "--feed", kept, "--fetch", "y")[1] == "y:0  float32 [1, 1]\n[[4.]]\n"
    assert run(capsys, linear, "--feed", f"x={kept}:product:0", "--fetch", "y")[0] == failure.BAD_FEED


@pytest.mark.parametrize("name", ["y.npy", "y.npz", "y.json"])
def test_kinds_of_output(capsys: Output, linear: str, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    assert run(capsys, linear, "--feed", "x=[[1, 2]]", "--fetch", "y", "--output", path)[0] == 0
    if name == "y.json":
        assert json.loads(path.read_text())["values"]["y:0"]["value"] == [[4.0]]
    else:
        loaded = np.load(path, allow_pickle=False)
        assert (loaded["y:0"] if name == "y.npz" else loaded).tolist() == [[4.0]]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["--fetch", "nothing"], failure.USAGE, "no node"),
        (["--fetch", "prodct"], failure.USAGE, "product"),
        (["--fetch", "y:1"], failure.USAGE, "1 output"),
        (["--target", "nothing"], failure.USAGE, "no node"),
        (["--init", "nothing", "--fetch", "y"], failure.USAGE, "no node"),
        (["--fetch", "y", "--steps", "0"], failure.USAGE, "0"),
        (["--fetch", "y", "--output", "a.txt"], failure.USAGE, ".npz"),
        (["--fetch", "y", "--feed", "x"], failure.USAGE, "NAME=SOURCE"),
        (["--feed", "x=[[1, 2]]"], failure.USAGE, "add --fetch NAME or --target NODE, such as --fetch"),
        (["--output", "a.npz"], failure.USAGE, "add --fetch NAME"),
        (["--fetch", "y", "--feed", "x=@graph.pb"], failure.BAD_FEED, "for a string tensor"),
        (["-y", "y", "--labels", "nothing.txt"], failure.USAGE, "cannot read it"),
        (["--fetch", "y", "--no-such-option"], failure.USAGE, "no-such-option"),
        (["--fetch", "y"], failure.BAD_FEED, "--feed x=SOURCE"),
        (["--fetch", "y", "--feed", "x=[1, 2]"], failure.BAD_FEED, "[?,2]"),
        (["--fetch", "y", "--feed", "x=words"], failure.BAD_FEED, "words"),
        (["--fetch", "y", "--feed", "nothing=1"], failure.BAD_FEED, "no node"),
        (["--fetch", "y", "--feed", "x=[[1, 2]]", "--feed", "x:0=[[1, 2]]"], failure.BAD_FEED, "twice"),
        (["--fetch", "y", "--feed", "product=[[1, 2], [3, 4], [5]]"], failure.BAD_FEED, "length"),
    ],
)
def test_what_goes_wrong_says_so_in_one_line(
    capsys: Output, linear: str, arguments: list[str], code: int, says: str
) -> None:
    assert says in fails(capsys, code, linear, *arguments)


def test_a_step_that_fails(capsys: Output, counter: str) -> None:
    message = fails(capsys, failure.STEP_ERROR, counter, "--fetch", "count")
    assert "FailedPreconditionError" in message
    assert "uninitialized value v" in message


def test_a_node_without_output_is_a_target(capsys: Output, counter: str) -> None:
    assert "--target init" in fails(capsys, failure.USAGE, counter, "--fetch", "init")


@pytest.mark.parametrize("content", [None, b"", b"\x00\x01nonsense", b"words, not a graph {"])
def test_unreadable_graphs(capsys: Output, tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "graph.pb"
    if content is not None:
        path.write_bytes(content)
    if content == b"":
        return  # an empty GraphDef is one
    fails(capsys, failure.UNREADABLE_GRAPH, path, "--fetch", "y")


def test_a_directory_without_a_model(capsys: Output, tmp_path: Path) -> None:
    assert "saved_model.pb" in fails(capsys, failure.UNREADABLE_GRAPH, tmp_path, "--fetch", "y")


def test_a_graph_with_faults_names_the_first_and_counts_the_rest(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text('node { name: "a" op: "Neg" input: "b" } node { name: "c" op: "Neg" input: "d" }')
    message = fails(capsys, failure.UNREADABLE_GRAPH, path, "--fetch", "a")
    assert "'a'" in message
    assert "more fault" in message


def test_an_unknown_op_matters_only_if_it_is_reached(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    graph = fe.Graph()
    graph.constant(2.0, name="two")
    path.write_text(f'{graph.to_graph_def()} node {{ name: "odd" op: "NobodyKnowsThis" }}')
    assert run(capsys, path, "--fetch", "two")[:2] == (0, "two:0 = 2.0\n")
    assert "NobodyKnowsThis" in fails(capsys, failure.MISSING_OP, path, "--fetch", "odd")


def test_a_step_that_takes_too_long(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    queue = graph.ops.FIFOQueueV2(component_types=["float32"], name="queue")
    graph.ops.QueueDequeueV2(queue, component_types=["float32"], name="take")
    fails(capsys, failure.TIMEOUT, save(graph), "--fetch", "take", "--timeout", "0.05")


def test_hostile_names_reach_the_terminal_escaped(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text('node { name: "odd" op: "Evil\\033[2J\\nOp" }')
    message = fails(capsys, failure.MISSING_OP, path, "--fetch", "odd")
    assert "\x1b" not in message
    assert "\x1b" not in run(capsys, path)[1]


def test_debug_shows_a_traceback(capsys: Output, counter: str) -> None:
    code, _, err = run(capsys, counter, "--fetch", "count", "--debug")
    assert code == failure.STEP_ERROR
    assert "Traceback" in err
    assert err.splitlines()[-1].startswith("error: ")
