"""`flowengine inspect`: what a graph holds, in text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli.main import main
from flowengine.ir.proto import DataType, MetaGraphDef, SavedModel

Output = pytest.CaptureFixture[str]
DIGITS = Path(__file__).resolve().parent.parent / "data" / "digits" / "digits.pb"


def examine(capsys: Output, path: object) -> dict[str, Any]:
    assert main(["inspect", str(path), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_demo_graph(capsys: Output) -> None:
    found = examine(capsys, DIGITS)
    assert found["nodes"] == 339
    assert found["ops"]["Conv2D"] == 4
    assert list(found["ops"].values()) == sorted(found["ops"].values(), reverse=True)
    assert [(p["name"], p["dtype"], p["shape"]) for p in found["placeholders"]] == [
        ("images:0", "float32", [None, 8, 8, 1]),
        ("labels:0", "int32", [None]),
    ]
    assert {each["name"] for each in found["outputs"][:3]} == {"accuracy:0", "scores:0", "loss:0"}
    assert found["ops_without_kernel"] == {}


def test_parameters_are_counted_exactly(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    graph.ops.VariableV2(shape=[3, 4], dtype="float32", name="w")
    graph.ops.VarHandleOp(shape=[5], dtype="float32", name="h")
    graph.ops.VariableV2(shape=[None, 2], dtype="float32", name="free")
    graph.constant([1.0] * 9)
    graph.constant([1.0] * 8)
    graph.constant([1] * 100)
    found = examine(capsys, save(graph))
    assert found["parameters"] == {
        "total": 26,
        "in_variables": 17,
        "in_constants": 9,
        "constants": 1,
        "variables_of_unknown_size": 1,
    }
    assert [(v["name"], v["shape"], v["elements"]) for v in found["variables"]] == [
        ("w", [3, 4], 12),
        ("h", [5], 5),
        ("free", [None, 2], None),
    ]


def test_what_cannot_run_here_is_listed(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text('node { name: "a" op: "NobodyKnowsThis" } node { name: "b" op: "NobodyKnowsThis" }')
    assert examine(capsys, path)["ops_without_kernel"] == {"NobodyKnowsThis": 2}
    assert main(["inspect", str(path)]) == 0
    assert "NobodyKnowsThis" in capsys.readouterr().out


CALLS = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
node { name: "y" op: "PartitionedCall" input: "x" attr { key: "f" value { func { name: "Twice" } } }
       attr { key: "Tin" value { list { type: DT_FLOAT } } }
       attr { key: "Tout" value { list { type: DT_FLOAT } } } }
node { name: "z" op: "Twice" input: "y" }
library { function {
  signature { name: "Twice" input_arg { name: "a" type: DT_FLOAT } output_arg { name: "b" type: DT_FLOAT } }
  node_def { name: "sum" op: "AddV2" input: "a" input: "a" attr { key: "T" value { type: DT_FLOAT } } }
  node_def { name: "odd" op: "NobodyKnowsThis" }
  ret { key: "b" value: "sum:z:0" } } }
"""


def test_calls_run_here_and_bodies_are_looked_into(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text(CALLS)
    found = examine(capsys, path)
    assert found["ops_without_kernel"] == {"NobodyKnowsThis": 1}
    ops = {"AddV2": 1, "NobodyKnowsThis": 1, "_Arg": 1}
    assert found["functions"] == [{"name": "Twice", "nodes": 3, "ops": ops}]
    assert main(["inspect", str(path)]) == 0
    told = capsys.readouterr().out
    assert "functions: 1\n       3 nodes  Twice\n" in told
    assert told.endswith("ops in functions: 2\n       1  AddV2\n       1  NobodyKnowsThis\n")
    path.write_text(CALLS.replace('name: "Twice" } }', 'name: "Thrice" } }'))
    assert examine(capsys, path)["ops_without_kernel"] == {"NobodyKnowsThis": 1, "Thrice": 1}
    path.write_text(CALLS.replace('node_def { name: "odd" op: "NobodyKnowsThis" }', ""))
    assert main(["run", str(path), "--feed", "x=2", "--fetch", "z"]) == 0


def test_ten_likely_outputs_or_all(capsys: Output, save: Callable[[fe.Graph], str]) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [None, 2], name="x")
    for number in range(12):
        graph.ops.Neg(x, name=f"inner/y{number}")
    graph.ops.Neg(x, name="y")
    graph.ops.Shape(graph.constant([1.0]), name="unreached")
    path = save(graph)
    assert [each["name"] for each in examine(capsys, path)["outputs"][:2]] == ["y:0", "inner/y11:0"]
    assert main(["inspect", path]) == 0
    shown = capsys.readouterr().out
    assert "likely outputs: 14\n  y:0  float32 [?,2]\n" in shown
    assert "  inner/y3:0  float32 [?,2]\n  and 4 more: --all\n" in shown
    assert main(["inspect", path, "--all"]) == 0
    shown = capsys.readouterr().out
    assert "  unreached:0  int32 [1]\nvariables" in shown


def test_many_long_lists_fit_a_screen(capsys: Output, tmp_path: Path) -> None:
    unary = ["Neg", "Exp", "Log", "Tanh", "Relu", "Sin", "Cos", "Abs", "Sqrt", "Square", "Ceil", "Floor"]
    of_float = 'attr { key: "T" value { type: DT_FLOAT } }'
    nodes, functions = [], []
    for number, op in enumerate(unary):
        x, f = f"x_{number}", f"f_{number}"
        typed = 'attr { key: "dtype" value { type: DT_FLOAT } }'
        scalar = 'attr { key: "shape" value { shape { } } }'
        nodes += [
            f'node {{ name: "{x}" op: "Placeholder" {typed} }}',
            f'node {{ name: "v_{number}" op: "VariableV2" {typed} {scalar} }}',
            f'node {{ name: "y_{number}" op: "{op}" input: "{x}" {of_float} }}',
            f'node {{ name: "called_{number}" op: "{f}" input: "{x}" }}',
        ]
        functions.append(
            f'function {{ signature {{ name: "{f}" input_arg {{ name: "a" type: DT_FLOAT }} '
            f'output_arg {{ name: "b" type: DT_FLOAT }} }} ret {{ key: "b" value: "n:y:0" }} '
            f'node_def {{ name: "n" op: "{op}" input: "a" {of_float} }} }}'
        )
    path = tmp_path / "graph.pbtxt"
    path.write_text("\n".join([*nodes, "library {", *functions, "}"]))
    assert main(["inspect", str(path), "--all"]) == 0
    assert len(capsys.readouterr().out.splitlines()) > 90
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) < 60
    assert sum(line.endswith("more: --all") for line in shown) == 6


def test_the_text_says_the_same(capsys: Output) -> None:
    assert main(["inspect", str(DIGITS)]) == 0
    text = capsys.readouterr().out
    assert "339 nodes" in text
    assert "parameters: 28441 (27413 in 17 variables, 1028 in 10 float constants" in text
    assert "ops without a kernel here: none" in text


def exported(graph: fe.Graph) -> MetaGraphDef:
    meta = MetaGraphDef()
    meta.meta_info_def.tags.append("serve")
    meta.graph_def.CopyFrom(graph.to_graph_def())
    signature = meta.signature_def["serving_default"]
    for tensor, name in ((signature.inputs["number"], "x:0"), (signature.outputs["double"], "y:0")):
        tensor.name = name
        tensor.dtype = DataType.DT_FLOAT
        tensor.tensor_shape.SetInParent()
    return meta


def test_a_meta_graph_and_a_saved_model_bring_signatures(capsys: Output, tmp_path: Path) -> None:
    graph = fe.Graph()
    graph.ops.Mul(graph.placeholder("float32", [], name="x"), 2.0, name="y")
    meta = exported(graph)
    (tmp_path / "model.meta").write_bytes(meta.SerializeToString())
    folder = tmp_path / "exported"
    folder.mkdir()
    saved = SavedModel(saved_model_schema_version=1, meta_graphs=[meta])
    (folder / "saved_model.pb").write_bytes(saved.SerializeToString())
    for path in (tmp_path / "model.meta", folder):
        assert examine(capsys, path)["signatures"] == {
            "serving_default": {
                "inputs": {"number": {"tensors": ["x:0"], "dtype": "float32", "shape": []}},
                "outputs": {"double": {"tensors": ["y:0"], "dtype": "float32", "shape": []}},
            }
        }
        assert main(["inspect", str(path)]) == 0
        assert "serving_default: number float32 [] -> double float32 []" in capsys.readouterr().out
        assert main(["run", str(path), "--feed", "x=4", "--fetch", "y"]) == 0
        assert capsys.readouterr().out == "y:0 = 8.0\n"


def test_an_old_placeholder_without_shape_is_unknown(capsys: Output, tmp_path: Path) -> None:
    path = tmp_path / "graph.pbtxt"
    node = 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } %s }'
    path.write_text(node % 'attr { key: "shape" value { shape {} } }' + " versions { producer: 10 }")
    assert examine(capsys, path)["placeholders"][0]["shape"] is None
    path.write_text(node % 'attr { key: "shape" value { shape {} } }' + " versions { producer: 100 }")
    assert examine(capsys, path)["placeholders"][0]["shape"] == []


def test_no_gradients_among_the_likely_outputs_unless_all_are_wanted(
    capsys: Output, save: Callable[[fe.Graph], str]
) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [3], name="x")
    w = graph.variable(np.ones(3, np.float32), name="w")
    loss = graph.ops.Sum(graph.ops.Mul(x, w.value()), 0, name="loss")
    fe.gradients(loss, [w, x])
    path = save(graph)
    assert main(["inspect", path]) == 0
    shown = capsys.readouterr().out
    assert "likely outputs: 1\n  loss:0  float32 []\nvariables" in shown
    assert main(["inspect", path, "--all"]) == 0
    assert "  loss:0  float32 []\n  gradients/" in capsys.readouterr().out
