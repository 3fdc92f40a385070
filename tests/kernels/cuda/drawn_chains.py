"""Chains of elementwise nodes as Hypothesis draws them: all element types, conversions, broadcasts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import functions

_COMPARISONS: Final = ("Less", "LessEqual", "Greater", "GreaterEqual", "Equal", "NotEqual")
_BITWISE: Final = ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Invert", "LeftShift", "RightShift")
_ARITHMETIC: Final = ("Add", "AddV2", "Sub", "Mul", "Div", "Neg", "Square", "SquaredDifference", "AddN")
_INTEGER: Final = (
    *_ARITHMETIC,
    *_BITWISE,
    *("RealDiv", "TruncateDiv", "FloorDiv", "Mod", "TruncateMod", "FloorMod", "Maximum", "Minimum", "Pow"),
    *("ClipByValue", "Relu", "Relu6", "ReluGrad"),
)
_SIGNED: Final = ("Abs", "Sign")
_FLOAT: Final = (
    *sorted(functions.FLOAT_FUNCTIONS.keys() - {"BiasAdd", "BiasAddV1"}),
    *("AddN", "Select", "SelectV2"),
)
_COMPLEX: Final = ("Add", "AddV2", "Sub", "Neg", "Conj", "Real", "Imag", "Equal", "NotEqual", "AddN")
_TRUTH: Final = ("LogicalAnd", "LogicalOr", "LogicalNot", "Equal", "NotEqual", "SelectV2")
_TYPES: Final = tuple(functions.C_TYPES)
_SPECIAL: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 6.0, np.inf, -np.inf, np.nan, 1e-40, 3e38, 65504.0, 1e-7)
_ONE: Final = frozenset(
    {
        *("Neg", "Square", "Invert", "Relu", "Relu6", "Abs", "Sign", "Conj", "Real", "Imag", "LogicalNot"),
        *("Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Ceil", "Cos", "Cosh", "Erf", "Erfc", "Exp"),
        *("Expm1", "Floor", "Log", "Log1p", "Reciprocal", "Inv", "Rint", "Round", "Rsqrt", "Sigmoid", "Sin"),
        *("Sinh", "Sqrt", "Tan", "Tanh", "Elu", "Selu", "Softplus", "Softsign", "IsNan", "IsFinite", "IsInf"),
        "LeakyRelu",
    }
)


_THREE: Final = frozenset({"AddN", "ClipByValue", "Select", "SelectV2"})


@dataclass(frozen=True)
class DrawnStep:
    node: Node
    sources: tuple[int, ...]


class DrawnChain:
    """Steps over inputs that broadcast to a shape. (A dataclass would be printed whole by Hypothesis.)"""

    def __init__(
        self,
        shape: tuple[int, ...],
        inputs: list[np.ndarray[Any, Any]],
        types: list[DType],
        steps: list[DrawnStep],
    ) -> None:
        self.shape = shape
        self.inputs = inputs
        self.types = types
        self.steps = steps

    def __repr__(self) -> str:
        return " -> ".join(step.node.op for step in self.steps)


def array(seed: int, shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
    """Numbers of every size, and those that are special."""
    rng = np.random.default_rng(seed)
    kind = dtype.as_numpy_dtype
    if dtype.is_bool:
        return np.asarray(rng.random(shape) < 0.5)
    if dtype.is_integer:
        info = np.iinfo(kind)
        small = rng.integers(max(-9, info.min), 9, shape)
        large = rng.integers(info.min, info.max, shape, kind, endpoint=True)
        return np.where(rng.random(shape) < 0.7, np.asarray(small).astype(kind), large)
    with np.errstate(all="ignore"):
        value = rng.standard_normal(shape) * 10.0 ** rng.integers(-3, 4, shape)
        value = np.where(rng.random(shape) < 0.2, rng.choice(_SPECIAL, shape), value)
        if dtype.is_complex:
            return np.asarray(value + 1j * rng.standard_normal(shape)).astype(kind)
        return value.astype(kind)


def single_nodes(types: Iterable[DType], targets: Iterable[DType]) -> Iterator[DrawnChain]:
    """A chain of one node for each op and type that has an expression; conversions to `targets`."""
    for dtype in types:
        for op in sorted(functions.ELEMENTWISE - {"BiasAdd", "BiasAddV1"}):
            kinds: Iterable[dict[str, Any]] = [{}]
            if op == "Cast":
                kinds = [{"DstT": target.name} for target in targets]
            elif op in ("Real", "Imag"):
                kinds = [{"Tout": "float32" if dtype is dtypes.complex64 else "float64"}]
            for attrs in kinds:
                chain = _single(op, dtype, attrs)
                if chain is not None:
                    yield chain


def _single(op: str, dtype: DType, attrs: dict[str, Any]) -> DrawnChain | None:
    graph = fe.Graph()
    types = [dtype] * (1 if op in _ONE or op == "Cast" else 3 if op in _THREE else 2)
    if op in ("Select", "SelectV2"):
        types[0] = dtypes.bool_
    tensors = [graph.placeholder(each.name, [61]) for each in types]
    try:
        made = getattr(graph.ops, op)(*([tensors] if op == "AddN" else tensors), **attrs)
    except fe.errors.OpError:
        return None  # the op is not for this type
    node = graph.nodes[made.node_name]
    if functions.expression(node) is None:
        return None
    arrays = [array(seed, (61,), each) for seed, each in enumerate(types)]
    return DrawnChain((61,), arrays, types, [DrawnStep(node, tuple(range(len(types))))])


def _ops(dtype: DType) -> tuple[str, ...]:
    if dtype.is_bool:
        return _TRUTH
    if dtype.is_complex:
        return _COMPLEX
    if dtype.is_floating:
        return (*_FLOAT, *_COMPARISONS)
    return (*_INTEGER, *_COMPARISONS, "SelectV2", *(_SIGNED if np.iinfo(dtype.as_numpy_dtype).min else ()))


@st.composite
def chains(draw: st.DrawFn) -> DrawnChain:
    """A chain over some sixty elements whose inputs are numbers, vectors, whole, or repeated elsewhere."""
    shape = draw(st.sampled_from([(61,), (7, 9), (3, 4, 5), (2, 3, 1, 10)]))
    graph = fe.Graph()
    tensors: list[fe.Tensor] = []
    arrays = []
    types = draw(st.lists(st.sampled_from(_TYPES), min_size=1, max_size=3))
    for dtype in types:
        own = tuple(n if draw(st.integers(0, 3)) else 1 for n in shape)
        own = own[draw(st.integers(0, len(own))) :] if not draw(st.integers(0, 2)) else own
        arrays.append(array(draw(st.integers(0, 1 << 20)), own, dtype))
        tensors.append(graph.placeholder(dtype.name, shape))
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        found = _drawn(draw, graph, tensors)
        if found is None:
            continue
        made, sources = found
        if functions.expression(graph.nodes[made.node_name]) is None:
            continue
        steps.append(DrawnStep(graph.nodes[made.node_name], sources))
        tensors.append(made)
    if not steps:
        made = graph.ops.Cast(tensors[0], DstT="bool")
        if types[0].is_complex:
            made = graph.ops.Real(tensors[0], Tout="float32" if types[0] is dtypes.complex64 else "float64")
        steps.append(DrawnStep(graph.nodes[made.node_name], (0,)))
    return DrawnChain(shape, arrays, types, steps)


def _drawn(
    draw: st.DrawFn, graph: fe.Graph, tensors: list[fe.Tensor]
) -> tuple[fe.Tensor, tuple[int, ...]] | None:
    first = draw(st.integers(0, len(tensors) - 1))
    dtype = tensors[first].dtype
    if not dtype.is_complex and not draw(st.integers(0, 4)):
        target = draw(st.sampled_from([d for d in _TYPES if not d.is_complex]))
        return graph.ops.Cast(tensors[first], DstT=target.name), (first,)
    op = draw(st.sampled_from(_ops(dtype)))
    alike = [i for i, t in enumerate(tensors) if t.dtype is dtype]
    other, third = draw(st.sampled_from(alike)), draw(st.sampled_from(alike))
    make = getattr(graph.ops, op)
    attrs: dict[str, Any] = {}
    if op.startswith("LeakyRelu"):
        attrs["alpha"] = draw(st.sampled_from([0.25, 0.3, 1.5]))
    if op == "ApproximateEqual":
        attrs["tolerance"] = 0.3
    if op in ("Real", "Imag"):
        attrs["Tout"] = "float32" if dtype is dtypes.complex64 else "float64"
    if op in ("Select", "SelectV2"):
        truths = [i for i, t in enumerate(tensors) if t.dtype.is_bool]
        if not truths:
            return None
        sources: tuple[int, ...] = (draw(st.sampled_from(truths)), first, other)
    elif op == "ClipByValue":
        sources = (first, other, third)
    elif op == "AddN":
        sources = (first, other, third)[: draw(st.integers(2, 3))]
        try:
            return make([tensors[i] for i in sources]), sources
        except fe.errors.OpError:
            return None
    else:
        sources = (first,) if op in _ONE else (first, other)
    try:
        return make(*(tensors[i] for i in sources), **attrs), sources
    except (fe.errors.OpError, TypeError, ValueError):
        return None  # the op is not for this type
