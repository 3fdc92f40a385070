"""Every op with any arguments: a node or an InvalidArgumentError; and less knowledge never says otherwise."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flowengine.core import dtypes as dt
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.argdef import AttrDef
from flowengine.ir.attrs import FuncAttr
from flowengine.ir.opdef import OpDef
from flowengine.ops.load import registry
from tests.effort import examples

OPS = [name for name in registry() if registry()[name].shape is not None and registry()[name].outputs]
SHAPES = st.one_of(
    st.none(), st.lists(st.one_of(st.none(), st.sampled_from([0, 1, 2, 2, 3, 4, 6])), max_size=5)
)
INTEGERS = st.sampled_from([-2, -1, 0, 1, 1, 2, 2, 3, 4])
ONE_VALUE: dict[str, st.SearchStrategy[Any]] = {
    "int": INTEGERS,
    "float": st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]),
    "bool": st.booleans(),
    "string": st.sampled_from(["", "a", "NHWC", "ij,jk->ik", "...i->i..."]),
    "type": st.sampled_from([dt.float32, dt.int32, dt.string, dt.bool_]),
    "shape": SHAPES,
    "tensor": st.just(np.zeros(2, np.float32)),
    "func": st.just(FuncAttr("f")),
}


@dataclass(frozen=True)
class Input:
    """A constant (an array) or a placeholder (a shape); of handles and references only the type counts."""

    dtype: DType
    value: Any = None
    shape: Any = None

    def build(self, graph: Graph) -> Tensor:
        if self.dtype.is_ref:
            made: Tensor = graph.ops.VariableV2(shape=self.shape, dtype=self.dtype.base)
            return made
        return (
            graph.constant(self.value)
            if self.value is not None
            else graph.placeholder(self.dtype, self.shape)
        )


def attr_values(draw: Any, attr: AttrDef) -> Any:
    inner = attr.type.removeprefix("list(").removesuffix(")")
    one = st.sampled_from(attr.allowed) if attr.allowed else ONE_VALUE[inner]
    return draw(st.lists(one, max_size=5)) if attr.type.startswith("list(") else draw(one)


@st.composite
def calls(draw: Any) -> tuple[str, list[Any], dict[str, Any]]:
    """An op, its inputs (a list input is one list) and attributes."""
    name = draw(st.sampled_from(OPS))
    op: OpDef = registry()[name]
    counts = {arg.number_attr for arg in (*op.inputs, *op.outputs) if arg.number_attr}
    attrs: dict[str, Any] = {}
    for attr in op.attrs:
        if attr.name in counts:
            attrs[attr.name] = draw(st.integers(1, 3))
        elif not attr.has_default or draw(st.booleans()):
            attrs[attr.name] = attr_values(draw, attr)
    complete = {k: tuple(v) if isinstance(v, list) else v for k, v in op.with_defaults(attrs).items()}
    inputs = []
    for arg in op.inputs:
        items = [draw(one_input(dtype)) for dtype in arg.types(complete)]
        inputs.append(items if arg.is_list else items[0])
    return name, inputs, attrs


def one_input(dtype: DType) -> st.SearchStrategy[Input]:
    open_ = SHAPES.map(lambda shape: Input(dtype, shape=shape))
    if dtype.is_ref or dtype.is_quantized or dtype.as_numpy_dtype.hasobject:
        return open_
    small = INTEGERS if dtype.as_numpy_dtype.kind not in "ub" else st.integers(0, 4)
    sides = st.lists(st.integers(1, 4), max_size=2)
    constant = sides.flatmap(
        lambda side: st.lists(small, min_size=int(np.prod(side)), max_size=int(np.prod(side))).map(
            lambda items: Input(dtype, value=np.array(items).reshape(side).astype(dtype.as_numpy_dtype))
        )
    )
    return st.one_of(open_, constant)


def infer(call: tuple[str, list[Any], dict[str, Any]]) -> list[TensorShape]:
    """The shapes of all outputs; InvalidArgumentError where the arguments do not fit."""
    name, inputs, attrs = call
    graph = Graph()
    built = [[each.build(graph) for each in i] if isinstance(i, list) else i.build(graph) for i in inputs]
    return [output.shape for output in graph.create_op(name, built, attrs).outputs]


@settings(
    max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
@given(calls())
def test_any_arguments_make_a_node_or_a_clear_error(call: tuple[str, list[Any], dict[str, Any]]) -> None:
    with contextlib.suppress(InvalidArgumentError):
        infer(call)


def forgetting(draw: Any, given: Input) -> Input:
    """An input of which less is known."""
    if given.value is not None:
        shape = list(given.value.shape)
        vaguer: Input = draw(st.sampled_from([given, Input(given.dtype, shape=shape), Input(given.dtype)]))
        return vaguer
    if given.shape is None or given.dtype.is_ref:
        return given
    return Input(given.dtype, shape=draw(st.sampled_from([given.shape, [None] * len(given.shape), None])))


@settings(
    max_examples=examples(300), suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
@given(st.data(), calls())
def test_less_knowledge_says_less_and_nothing_else(
    data: st.DataObject, call: tuple[str, list[Any], dict[str, Any]]
) -> None:
    try:
        precise = infer(call)
    except InvalidArgumentError:
        return
    name, inputs, attrs = call
    vaguer = [
        [forgetting(data.draw, each) for each in i] if isinstance(i, list) else forgetting(data.draw, i)
        for i in inputs
    ]
    for less, more in zip(infer((name, vaguer, attrs)), precise, strict=True):
        assert less.is_compatible_with(more), (less, more)
        assert less.merge_with(more) == more, (less, more)
