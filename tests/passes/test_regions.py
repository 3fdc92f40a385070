"""Regions of hot plans: whose memory a result may take, and what comes in from ops that nobody knows."""

from __future__ import annotations

import numpy as np
import pytest
from google.protobuf import text_format

import flowengine as fe
from flowengine.ir.proto import GraphDef
from tests.runtime.loops.written import both


@pytest.mark.parametrize("op", ["Less", "Equal", "NotEqual", "GreaterEqual"])
async def test_a_result_of_another_type_takes_no_operands_memory(op: str) -> None:
    """A truth in the memory of a number would be a number; a difference of numbers may take it."""
    g = fe.Graph()
    x = g.placeholder("float32", [3, 2], name="x")
    square = g.ops.Mul(g.ops.Exp(x), x)
    getattr(g.ops, op)(square, x, name="truth")
    g.ops.Sub(g.ops.Neg(g.ops.Exp(x)), x, name="number")
    fetches = ["truth:0", "number:0"]
    value = np.array([[0, 1], [-2, 0.5], [0.25, 3]], np.float32)
    truth, number = await both(g, fetches, {"x:0": value})
    assert (truth.dtype, number.dtype) == (np.bool_, np.float32)
    with fe.blocking.Session(g) as session:
        lines = session.explain(fetches, ["x:0"], source=True).splitlines()
    written = {
        name: next(line for line in lines if line.endswith(f"'{name}'")) for name in ("truth", "number")
    }
    assert written["truth"].partition("#")[0].count(",") == 1
    assert written["number"].partition("#")[0].count(",") == 2, "it takes an operand's memory"


@pytest.mark.parametrize("compiled", [True, False])
async def test_what_a_region_takes_from_an_op_that_nobody_knows_is_missed_by_name(compiled: bool) -> None:
    """Its outputs are not known, so there is no type at the place that the region takes."""
    attr = 'attr { key: "T" value { type: DT_FLOAT } }'
    text = f"""
      node {{ name: "strange" op: "NoSuchOpAnywhere" }}
      node {{ name: "double" op: "AddV2" input: "strange" input: "strange" {attr} }}
      node {{ name: "y" op: "Neg" input: "double" {attr} }}
    """
    g = fe.Graph.from_graph_def(text_format.Parse(text, GraphDef()))
    async with fe.Session(g, config=fe.Config(compile_hot_plans=compiled)) as session:
        for _ in range(2):
            with pytest.raises(fe.errors.NotFoundError, match="NoSuchOpAnywhere"):
                await session.run("y:0")
