"""Values that do not fit as gradients: each is refused, by name, where the gradient is requested."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.gradients.symbolic_gradient import gradient_body
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.functions import FunctionLibrary
from tests.gradients.test_functions import FLOAT, LIBRARY


@pytest.mark.parametrize("given", ["text", b"text", [[1.0], [1.0, 2.0]], 2j])
def test_a_value_that_cannot_be_a_gradient(given: Any) -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    y, z = graph.ops.Neg(x, name="y"), graph.ops.Exp(x, name="z")
    with pytest.raises(TypeError, match=r"grad_ys\[1\], for 'z:0'"):
        fe.gradients([y, z], x, grad_ys=[np.ones(2, np.float32), given])


def test_a_gradient_of_another_type() -> None:
    graph = fe.Graph()
    x = graph.placeholder("float32", [2], name="x")
    y = graph.ops.Neg(x, name="y")
    with pytest.raises(TypeError, match=r"grad_ys\[0\] is float64; 'y:0' is float32"):
        fe.gradients(y, x, grad_ys=[graph.constant(np.ones(2))])


def test_the_gradient_that_the_library_says_gives_as_many_as_there_are_arguments() -> None:
    named = LIBRARY.rstrip()[:-1] + ' gradient { function_name: "square" gradient_func: "wrong" } }'
    wrong = named.replace(
        "library {",
        """library { function {
        signature { name: "wrong" input_arg { name: "a" type: DT_DOUBLE }
          input_arg { name: "g" type: DT_DOUBLE }
          output_arg { name: "y" type: DT_DOUBLE } output_arg { name: "z" type: DT_DOUBLE } }
        node_def { name: "m" op: "Mul" input: "a" input: "g" %(T)s }
        ret { key: "y" value: "m:z:0" } ret { key: "z" value: "m:z:0" } }""".replace("%(T)s", FLOAT),
        1,
    )
    graph = fe.Graph.from_graph_def(wrong)
    library = FunctionLibrary(graph.library, graph.registry, graph.producer)
    types = [dtypes.float64, dtypes.float64]
    assert len(gradient_body(library, FuncAttr("square", {}), types, 2).results) == 2
    with pytest.raises(InvalidArgumentError, match="'wrong', gives 2 tensors where 1 are expected"):
        gradient_body(library, FuncAttr("square", {}), types, 1)
