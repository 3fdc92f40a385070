"""`infer`: what the shape function of an op says for given input shapes and constant inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor

#: A shape (None: unknown rank; None among the dimensions: unknown), or an array: a constant input.
Given = Any
Infer = Callable[..., Any]


def _tensor(graph: Graph, given: Given, dtype: Any) -> Any:
    if isinstance(given, np.ndarray | np.generic):
        return graph.constant(given)
    if isinstance(given, list) and any(isinstance(g, list | np.ndarray) for g in given):
        return [_tensor(graph, g, dtype) for g in given]
    return graph.placeholder(dtype, given)


def run_shape_function(op: str, *inputs: Given, dtypes: Sequence[Any] = (), **attrs: Any) -> Any:
    """The shape of each output as a list, None for an unknown one."""
    graph = Graph()
    kinds = [*dtypes, *["float32"] * (len(inputs) - len(dtypes))]
    tensors = [_tensor(graph, given, kind) for given, kind in zip(inputs, kinds, strict=True)]
    result = getattr(graph.ops, op)(*tensors, **attrs)
    outputs: tuple[Tensor, ...] = (result.op if isinstance(result, Tensor) else _operation(result)).outputs
    return [None if t.shape.dims is None else list(t.shape.dims) for t in outputs]


def _operation(result: Any) -> Operation:
    while isinstance(result, tuple):
        result = result[0]
    return result.op if isinstance(result, Tensor) else result


@pytest.fixture(scope="session")
def infer() -> Infer:
    return run_shape_function
