"""Placeholders of old exports, whose shape stands in `_output_shapes` alone."""

from __future__ import annotations

from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.core.shapes import TensorShape

Output = pytest.CaptureFixture[str]
NOTED = """attr { key: "_output_shapes" value { list { shape { dim { size: -1 } dim { size: 3 } } } } }"""


@pytest.mark.parametrize(
    "shape", ["", """attr { key: "shape" value { shape { } } }"""], ids=["none", "scalar"]
)
def test_the_shape_that_the_exporter_noted(shape: str, tmp_path: Path, capsys: Output) -> None:
    path = tmp_path / "graph.pbtxt"
    path.write_text(
        f"""
        versions {{ producer: 17 }}
        node {{ name: "x" op: "Placeholder" {shape} {NOTED}
                attr {{ key: "dtype" value {{ type: DT_FLOAT }} }} }}
        node {{ name: "y" op: "Neg" input: "x" attr {{ key: "T" value {{ type: DT_FLOAT }} }} }}
        """
    )
    assert main(["inspect", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "x:0  float32 [?,3]" in shown
    assert "y:0  float32 [?,3]" in shown
    assert main(["run", str(path), "--feed", "x=[1, 2]", "--fetch", "y"]) == failure.BAD_FEED
    assert "the graph wants [?,3]" in capsys.readouterr().err
    assert fe.Graph.load(path).tensor("x:0").shape == TensorShape([None, 3])
