"""`flowengine compare`, and `flowengine run --record`."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main
from flowengine.tools.compare import read_record
from tests.tools.compare.planted import changed, network, with_weight

Output = pytest.CaptureFixture[str]
FEED = ("-x", "x=[[1, -2, 3, -4]]")


def called(capsys: Output, *arguments: object) -> tuple[int, str, str]:
    code = main([*map(str, arguments)])
    said = capsys.readouterr()
    return code, said.out, said.err


def saved(folder: Path, name: str, graph: fe.Graph) -> Path:
    path = folder / name
    path.write_bytes(graph.to_graph_def().SerializeToString())
    return path


@pytest.fixture
def one(tmp_path: Path) -> Path:
    return saved(tmp_path, "one.pb", network(4))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    """The same with one weight of the third layer changed."""
    return saved(tmp_path, "other.pb", with_weight(network(4), "layer_2/weights", 5))


def test_equal_graphs(capsys: Output, one: Path) -> None:
    code, out, err = called(capsys, "compare", one, one, *FEED)
    assert (code, err) == (0, "")
    assert out == "28 tensors equal within the tolerance, 0 different\n"


def test_a_changed_weight(capsys: Output, one: Path, other: Path) -> None:
    code, out, err = called(capsys, "compare", one, other, *FEED)
    assert (code, err) == (1, "")
    lines = out.splitlines()
    assert lines[0] == "first difference: layer_2/weights:0 (Const)  float32 [4, 4]"
    assert lines[1].startswith("  1 of 16 elements differ, by 0.3")
    assert lines[1].endswith(" at [1, 1]")
    assert lines[2] == "the error behind it"
    assert "layer_2/weights:0" in lines[3]
    assert out.endswith(" different\n")
    code, out, _ = called(capsys, "compare", one, other, *FEED, "--json")
    found = json.loads(out)
    assert code == 1
    assert found["first"]["tensor"] == "layer_2/weights:0"
    assert len(found["differences"]) + found["equal"] == 28
    code, out, _ = called(capsys, "compare", one, other, *FEED, "--tolerance", 1000)
    assert code == 0


def test_another_op_is_named_where_it_is(capsys: Output, one: Path, tmp_path: Path) -> None:
    path = saved(tmp_path, "op.pb", changed(network(4), "layer_1/squashed", op="Sigmoid"))
    code, out, _ = called(capsys, "compare", one, path, *FEED)
    assert code == 1
    assert out.startswith("first difference: layer_1/squashed:0 (Tanh)")
    assert "the node is built differently: Tanh against Sigmoid" in out


def test_a_recorded_run_gives_its_feeds_to_the_other_side(
    capsys: Output, one: Path, other: Path, tmp_path: Path
) -> None:
    record = tmp_path / "step.npz"
    code, out, err = called(capsys, "run", one, *FEED, "-y", "y", "--record", record)
    assert code == 0
    assert f"recorded 28 tensors of the last step in {record}" in err
    plain = called(capsys, "run", one, *FEED, "-y", "y")
    assert plain[1] == out
    assert called(capsys, "compare", record, one)[0] == 0
    assert called(capsys, "compare", one, record)[0] == 0
    assert called(capsys, "compare", record, record)[0] == 0
    for sides in ((record, other), (other, record)):
        code, out, _ = called(capsys, "compare", *sides)
        assert code == 1
        assert out.startswith("first difference: layer_2/weights:0")
    assert all(tensor.value is None or tensor.name == "x:0" for tensor in read_record(str(record)).tensors)
    called(
        capsys, "run", one, *FEED, "-y", "y", "--record", record, "--force", "--record-values", "*squashed*"
    )
    kept = {tensor.name for tensor in read_record(str(record)).tensors if tensor.value is not None}
    assert kept == {"x:0", *(f"layer_{number}/squashed:0" for number in range(4))}


def test_values_under_the_names_of_tensors_are_a_record(
    capsys: Output, one: Path, other: Path, tmp_path: Path
) -> None:
    values = tmp_path / "values.npz"
    fetches = [text for number in range(4) for text in ("-y", f"layer_{number}/squashed")]
    called(capsys, "run", one, *FEED, *fetches, "-o", values)
    assert called(capsys, "compare", values, one, *FEED)[0] == 0
    code, out, _ = called(capsys, "compare", values, other, *FEED)
    assert code == 1
    assert out.startswith("first difference: layer_2/squashed:0 (Tanh)")


def test_a_piece_is_compared_by_itself(capsys: Output, one: Path, tmp_path: Path) -> None:
    graph = with_weight(network(4), "layer_0/weights", 0)
    path = saved(tmp_path, "two.pb", with_weight(graph, "layer_3/bias", 1))
    assert "first difference: layer_0/weights:0" in called(capsys, "compare", one, path, *FEED)[1]
    code, out, _ = called(capsys, "compare", one, path, *FEED, "--freeze", "layer_1/squashed")
    assert code == 1
    assert "first difference: layer_3/bias:0" in out
    record = tmp_path / "step.npz"
    called(capsys, "run", one, *FEED, "-y", "y", "--record", record)
    code, _, err = called(capsys, "compare", record, path, "--freeze", "layer_1/squashed")
    assert code == 2
    assert "record it with --record-values layer_1/squashed:0" in err
    code, _, err = called(capsys, "compare", one, path, *FEED, "--freeze", "nothing")
    assert (code, err) == (2, f"error: --freeze nothing:0: the step of {one} does not make it\n")


def test_names_that_differ(capsys: Output, one: Path, tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.import_graph_def(network(4).to_graph_def(), prefix="model")
    path = saved(tmp_path, "scoped.pb", graph)
    code, _, err = called(capsys, "compare", one, path, *FEED)
    assert code == 5
    assert "--feed x:0 of" in err
    assert "the graph has no node of this name" in err
    code, out, _ = called(capsys, "compare", one, path, *FEED, "--map", "=model")
    assert (code, out) == (0, "28 tensors equal within the tolerance, 0 different\n")
    target = (*FEED, "-t", "layer_1/squashed", "--map", "=model")
    code, out, err = called(capsys, "compare", one, path, *target)
    assert (code, err) == (0, "")
    assert out.endswith(" tensors equal within the tolerance, 0 different\n")
    code, _, err = called(capsys, "compare", one, path, *FEED, "--map", "model")
    assert code == 2
    assert "write OLD=NEW" in err


def test_sides_with_nothing_in_common(capsys: Output, one: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "odd.npz", other=np.zeros(3))
    code, _, err = called(capsys, "compare", one, tmp_path / "odd.npz", *FEED)
    assert code == 2
    assert "the two sides have no tensor in common: one has layer_0/weights:0" in err
    assert "--map OLD=NEW" in err


def test_a_feed_that_is_missing(capsys: Output, one: Path, other: Path) -> None:
    code, _, err = called(capsys, "compare", one, other)
    assert code == 5
    assert "nothing was fed to 'x'" in err


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["one.pb"], 2, "name two sides"),
        (["one.pb", "missing.npz"], 3, "cannot read missing.npz: No such file"),
        (["one.pb", "missing.pb"], 3, "missing.pb"),
        (["one.pb", "one.pb", "--learning-rate", "x"], 2, "--learning-rate needs --steps"),
        (["one.pb", "one.pb", "--steps", "2"], 2, "does not say what a step is: add --target NODE"),
        (["one.pb", "one.pb", *["--restore", "a"] * 3], 2, "one checkpoint for both sides, or two"),
    ],
)
def test_wrong_usage(
    capsys: Output, one: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, message: str
) -> None:
    monkeypatch.chdir(one.parent)
    found, _, err = called(capsys, "compare", *arguments)
    assert found == code
    assert message in err


def test_images_are_fed_as_run_feeds_them(capsys: Output, tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    graph = fe.Graph()
    graph.ops.Neg(graph.placeholder("float32", [2, 2, 1], name="x"), name="y")
    path, picture, values = saved(tmp_path, "one.pb", graph), tmp_path / "x.png", tmp_path / "values.npz"
    image.fromarray(np.array([[0, 51], [102, 255]], np.uint8)).save(picture)
    options = ("-x", f"x={picture}", "--image-scale", "1/255", "--image-offset", "-0.5")
    assert called(capsys, "run", path, *options, "-y", "y", "-o", values)[0] == 0
    np.testing.assert_allclose(np.load(values)["y:0"].ravel(), [0.5, 0.3, 0.1, -0.5], atol=1e-6)
    for sides in ((values, path), (path, values)):
        assert called(capsys, "compare", *sides, *options)[0] == 0
        assert called(capsys, "compare", *sides, *options[:-2])[0] == 1


@pytest.mark.parametrize("steps", [(), ("--steps", "2", "--learning-rate", "rate", "--target", "y")])
def test_nodes_are_placed_as_run_places_them(capsys: Output, tmp_path: Path, steps: tuple[str, ...]) -> None:
    graph = fe.Graph()
    rate = graph.constant(0.5, name="rate")
    graph.ops.Neg(rate, name="y")
    path = saved(tmp_path, "one.pb", graph)
    options = ("compare", path, path, "-y", "y", *steps, "--device-count", "CPU=2")
    assert called(capsys, *options, "--place", "y=CPU:1")[0] == 0
    code, _, err = called(capsys, *options, "--place", "y=CPU:2")
    assert code == called(capsys, "run", path, *options[3:5], *options[-2:], "--place", "y=CPU:2")[0] != 0
    assert "CPU:2" in err


def test_records_are_not_placed(capsys: Output, one: Path, tmp_path: Path) -> None:
    record = tmp_path / "step.npz"
    called(capsys, "run", one, *FEED, "-y", "y", "--record", record)
    code, _, err = called(capsys, "compare", record, record, "--place", "y=CPU:0")
    assert (code, err) == (2, "error: --place: both sides are records, which do not run\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--record", "step.json"], "the name must end in .npz"),
        (["--record", "no/step.npz"], "there is no folder no"),
        (["--record", "step.npz", "--guard"], "--record goes without --guard"),
        (["--record-values", "*"], "--record-values needs --record FILE"),
    ],
)
def test_records_that_cannot_be(
    capsys: Output, one: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    monkeypatch.chdir(one.parent)
    code, _, err = called(capsys, "run", one, *FEED, "-y", "y", *options)
    assert code == 2
    assert message in err


def test_a_full_disk(capsys: Output, one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(np.lib.format, "write_array", full)
    record = tmp_path / "step.npz"
    code, _, err = called(capsys, "run", one, *FEED, "-y", "y", "--record", record)
    assert code == 1
    assert f"error: --record {record}: No space left on device\n" in err
    assert sorted(each.name for each in tmp_path.iterdir()) == ["one.pb"]


def training(rate: float, factor: float) -> fe.Graph:
    """Fit w x to 1; `factor` changes the gradient, but not the loss."""
    graph = fe.Graph()
    x = graph.placeholder("float32", [], name="x")
    w = graph.ops.VariableV2(shape=[], dtype="float32", name="w")
    graph.ops.Assign(w, np.float32(0.5), name="init")
    gap = graph.ops.Sub(graph.ops.Mul(graph.ops.Identity(w, name="read"), x, name="product"), 1.0, name="gap")
    graph.ops.Square(gap, name="loss")
    slope = graph.ops.Mul(graph.ops.Mul(gap, x), np.float32(factor), name="slope")
    graph.ops.ApplyGradientDescent(w, graph.constant(np.float32(rate), name="rate"), slope, name="train")
    return graph


def test_losses_of_two_trainings(capsys: Output, tmp_path: Path) -> None:
    one = saved(tmp_path, "one.pb", training(0.1, 2.0))
    other = saved(tmp_path, "other.pb", training(0.1, 1.0))
    options = ("-x", "x=1", "-y", "loss", "-t", "train", "--init", "init", "--steps", 3)
    code, out, _ = called(capsys, "compare", one, one, *options)
    assert code == 0
    assert out.splitlines()[0] == "learning rate 0"
    assert out.endswith("the losses are equal within the tolerance\n")
    code, out, _ = called(capsys, "compare", one, other, *options)
    assert code == 1
    assert out.splitlines()[-1].startswith("training: loss:0 differs in step 2, by ")
    rates = [line.split()[3:5] for line in out.splitlines()[1:4]]
    assert rates == [["0.25", "0.25"]] * 3
    code, out, _ = called(capsys, "compare", one, one, *options, "--json", "--learning-rate", "rate")
    assert code == 0
    assert [each["step"] for each in json.loads(out)["losses"]] == [1, 2, 3, 1, 2, 3]


def test_losses_that_are_not_finite(capsys: Output, tmp_path: Path) -> None:
    one = saved(tmp_path, "one.pb", training(1e38, 2.0))
    options = ("-x", "x=1", "-y", "loss", "-t", "train", "--init", "init", "--steps", 3)
    code, out, _ = called(capsys, "compare", one, one, *options, "--json")
    assert code == 0
    losses = json.loads(out)["losses"]
    assert [each["one"] for each in losses[3:]] == [0.25, "Infinity", "Infinity"]
    assert [each["error"] for each in losses] == [0.0] * 6
    other = saved(tmp_path, "other.pb", training(0.1, 2.0))
    code, out, _ = called(capsys, "compare", one, other, *options, "--json")
    assert code == 1
    assert json.loads(out)["losses"][4]["error"] == "Infinity"


def test_a_side_without_a_learning_rate(capsys: Output, one: Path) -> None:
    options = (*FEED, "-y", "y", "-t", "y", "--steps", 2)
    code, _, err = called(capsys, "compare", one, one, *options)
    assert code == 2
    assert "no op of an optimizer" in err
    assert "add --learning-rate NAME" in err
    code, _, err = called(
        capsys, "compare", one, one, *FEED, "-y", "y", "-t", "y", "--steps", 2, "--freeze", "x"
    )
    assert code == 2
    assert "--freeze feeds tensors of B in one step" in err
    code, _, err = called(
        capsys,
        "compare",
        one,
        one,
        *FEED,
        "-y",
        "y",
        "-t",
        "y",
        "--steps",
        2,
        "--learning-rate",
        "layer_0/bias",
    )
    assert code == 2
    assert "y:0 of" in err
    assert "is float32 [1, 4]: fetch a loss, which is one number" in err


def test_chance_and_strings(capsys: Output, tmp_path: Path) -> None:
    def noisy(text: bytes) -> fe.Graph:
        graph = fe.Graph()
        noise = graph.ops.RandomUniform([4], dtype="float32", name="noise")
        graph.ops.Neg(noise, name="y")
        graph.ops.StringJoin([graph.constant(text, name="text"), graph.constant(b"!")], name="z")
        graph.ops.QueueSizeV2(graph.ops.FIFOQueueV2(component_types=["float32"], name="queue"), name="size")
        return graph

    one, other = saved(tmp_path, "one.pb", noisy(b"a")), saved(tmp_path, "other.pb", noisy(b"b"))
    fetches = ("-y", "y", "-y", "z", "-y", "size")
    code, out, _ = called(capsys, "compare", one, one, *fetches)
    assert code == 0
    assert out.splitlines()[0].startswith("2 tensors left out, behind ops of chance without a seed")
    assert "  noise\n" in out
    code, out, _ = called(capsys, "compare", one, other, *fetches)
    assert code == 1
    assert out.startswith(
        "first difference: text:0 (Const)  string []\n  1 of 1 elements differ: 'a' against 'b'\n"
    )
    code, out, _ = called(capsys, "compare", one, one, *fetches, "--freeze", "noise")
    assert code == 0
    assert "left out" not in out


def test_a_damaged_record(capsys: Output, one: Path, tmp_path: Path) -> None:
    record = tmp_path / "step.npz"
    called(capsys, "run", one, *FEED, "-y", "y", "--record", record)
    record.write_bytes(record.read_bytes()[:-30])
    code, _, err = called(capsys, "compare", one, record)
    assert code == 3
    assert f"{record} is no record of a step, or damaged" in err


def test_two_checkpoints_of_one_graph(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pb"
    for name, value in (("a", 1.0), ("b", 2.0)):
        graph = fe.Graph()
        graph.ops.Neg(graph.variable(value, name="v"), name="y")
        saved(tmp_path, "graph.pb", graph)
        with fe.blocking.Session(graph) as session:
            session.initialize()
            fe.blocking.Saver().save(session, str(tmp_path / name))
    a, b = (str(tmp_path / name) for name in "ab")
    assert called(capsys, "compare", path, path, "-y", "y", "--restore", a)[0] == 0
    code, out, _ = called(capsys, "compare", path, path, "-y", "y", "--restore", a, "--restore", b)
    assert code == 1
    assert out.startswith("first difference: v:0 (VarHandleOp)")


def test_a_tensor_of_a_loop_has_no_one_value_to_freeze(capsys: Output, tmp_path: Path) -> None:
    graph = fe.Graph()
    _, z = graph.while_loop(
        lambda i, _: i < 3,
        lambda i, v: (i + 1, graph.ops.Tanh(v, name="shrink")),
        [graph.constant(0), graph.constant(1.0)],
    )
    graph.ops.Neg(z, name="y")
    path = saved(tmp_path, "one.pb", graph)
    inside = next(name for name in graph.nodes if name.endswith("shrink"))
    code, _, err = called(capsys, "compare", path, path, "-y", "y", "--freeze", inside)
    assert code == 2
    assert f"--freeze {inside}:0: the step of {path} does not make it" in err
