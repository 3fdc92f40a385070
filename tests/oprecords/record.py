"""Records of ops, and how their samples become nodes of a graph.

A record drives every test of `test_records.py`, so that an op's kernel, shape function and GraphDef form
are tested by writing down a few inputs and what NumPy says of them:

    OpRecord("Maximum", [sample([[1, -2]], [[0], [3]])], np.maximum)

Inputs are written in whatever type is handy; each is cast to the type that the op's signature gives it, once
for every type that a kernel takes. The reference gets them widened (`float16` to `float64`), so that it is
right where a kernel rounds.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import ml_dtypes
import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array, to_array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.ir.argdef import ArgDef
from flowengine.ir.graph import Node
from flowengine.ir.opdef import OpDef
from flowengine.kernels.load import load_all
from flowengine.ops.load import registry

HALVES: Final = ("float16", "bfloat16")
FLOATS: Final = ("float32", "float64", *HALVES)
COMPLEX: Final = ("complex64", "complex128")
SIGNED: Final = ("int32", "int64", "int8", "int16")
UNSIGNED: Final = ("uint8", "uint16", "uint32", "uint64")
INTEGERS: Final = SIGNED + UNSIGNED
REALS: Final = FLOATS + INTEGERS
NUMBERS: Final = REALS + COMPLEX
#: For ops that only move elements, a type of each kind and width.
MOVED: Final = ("float32", "int32", "complex128", "bool", "bfloat16", "uint8")
#: Types that differ from a neighbour in width or sign only; tried nightly.
NIGHTLY: Final = frozenset(["int16", "uint16", "uint32", "uint64"])
#: What a record tries of an attribute for which it names no types, where a kernel takes them.
ANY: Final = (*NUMBERS, "bool")

#: How far, relative to the larger of 1 and the value, a result of this type may be from the reference.
TOLERANCE: Final = {
    "float16": 2e-3,
    "bfloat16": 1.6e-2,
    "float32": 3e-6,
    "float64": 1e-11,
    "complex64": 3e-6,
    "complex128": 1e-11,
}


@dataclass(frozen=True)
class Sample:
    """Inputs (a list for a list input) and attributes; types given in `attrs` are the only ones tried.

    expected    the outputs, where a reference cannot tell
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    expected: Any = None


@dataclass(frozen=True)
class BadSample:
    """Inputs and attributes that an op must refuse, and how.

    error       the class of the error
    message     what its text must hold: best the value at fault
    """

    inputs: tuple[Any, ...]
    attrs: Mapping[str, Any]
    error: str
    message: str


@dataclass(frozen=True)
class OpRecord:
    """All that the tests of one op need to know.

    reference       inputs by position, and by keyword those attributes that it names -> the outputs; or, with
                    `updates`, the new values of all variables among the inputs
    dtypes          {type attribute: names of the types to try}; those that a kernel takes, where not named
    only            the combinations of types to try, where not every one is legal
    loose           factor on the tolerance, for long sums and steep functions; 0 for bit equality
    check           called with (outputs, inputs, attributes) where no reference can know the values (random)
    partial         the output's shape depends on values, so that no shape function can know all of it
    differentiable  it has a gradient by its floating inputs, or by those that are named
    """

    op: str
    samples: Sequence[Sample]
    reference: Callable[..., Any] | None = None
    bad: Sequence[BadSample] = ()
    dtypes: Mapping[str, Sequence[str]] = field(default_factory=dict)
    only: Sequence[dict[str, str]] = ()
    loose: float = 1.0
    check: Callable[..., None] | None = None
    updates: bool = False
    random: bool = False
    partial: bool = False
    differentiable: bool | Sequence[str] = False

    @property
    def definition(self) -> OpDef:
        return registry()[self.op]

    def combinations(self) -> Iterator[dict[str, str]]:
        """The types to try: each attribute through all of its types, the others at their first."""
        if self.only:
            yield from self.only
            return
        choices = {a.name: self._choices(a.name) for a in self.definition.attrs if a.type == "type"}
        if os.environ.get("FLOWENGINE_TEST_PROFILE") != "nightly":
            choices = {k: [n for n in names if n not in NIGHTLY] or names for k, names in choices.items()}
        choices = {name: names for name, names in choices.items() if names}
        first = {name: names[0] for name, names in choices.items()}
        yield first
        for name, names in choices.items():
            for other in names[1:]:
                yield {**first, name: other}

    def _choices(self, attr: str) -> Sequence[str]:
        if attr in self.dtypes:
            return self.dtypes[attr]
        definition = self.definition.attr(attr)
        assert definition is not None
        taken = [k.types.get(attr) if k.types else None for k in kernels()[self.op]]
        return [
            name
            for name in ANY
            if (not definition.allowed or as_dtype(name) in definition.allowed)
            and any(types is None or as_dtype(name) in types for types in taken)
        ]


def sample(*inputs: Any, **attrs: Any) -> Sample:
    return Sample(inputs, attrs)


def grid(shape: Sequence[int], *texts: str) -> Array:
    """Numbers of more than two dimensions, written one after another."""
    words = " ".join(texts).split()
    return np.array([float(word) for word in words]).reshape(shape)


def told(inputs: Sequence[Any], expected: Sequence[Any], attrs: Mapping[str, Any]) -> Sample:
    """A sample whose outputs are written down: what TensorFlow gives."""
    return Sample(tuple(inputs), attrs, tuple(np.array(value) for value in expected))


def bad(error: str, message: str, /, *inputs: Any, **attrs: Any) -> BadSample:
    return BadSample(inputs, attrs, error, message)


def strings(*values: bytes) -> Array:
    array = np.empty(len(values), object)
    array[:] = values
    return array


@cache
def kernels() -> Mapping[str, Sequence[Any]]:
    """The kernels of each op on a CPU, in the order in which they are tried."""
    every = load_all()
    return {op: every.candidates(op) for op in dict.fromkeys(kernel.op for kernel in every)}


def cast(value: Any, dtype: DType) -> Array:
    """A sample's input in a type: negative numbers lose their sign in an unsigned one."""
    array = to_array(value) if isinstance(value, bytes | np.ndarray) else np.asarray(value)
    if array.dtype.kind in "Oc" or dtype.as_numpy_dtype.kind == "O":
        return array.astype(dtype.as_numpy_dtype)
    if dtype.name in UNSIGNED:
        array = np.abs(array)
    if dtype.is_complex:
        array = array + 0.25j * array
    elif not dtype.is_floating and array.dtype.kind == "f":
        array = np.trunc(array)
    return np.array(array.astype(dtype.as_numpy_dtype))


def plain(value: Any) -> Array:
    """A value that a session gave as it is inside: quantised numbers as integers of their width."""
    array = to_array(value)
    return array if array.dtype.names is None else array.view(array.dtype[0])


def widened(value: Any) -> Any:
    if isinstance(value, list):
        return [widened(v) for v in value]
    if value.dtype == ml_dtypes.bfloat16 or value.dtype.kind == "f":
        return value.astype(np.float64)
    return value.astype(np.complex128) if value.dtype.kind == "c" else value.copy()


def typed_inputs(record: OpRecord, each: Sample | BadSample, types: Mapping[str, str]) -> list[Any]:
    """The sample's inputs as arrays of the types that the op wants."""
    result: list[Any] = []
    for arg, value in zip(record.definition.inputs, each.inputs, strict=True):
        if arg.type_list_attr is not None:
            result.append([to_array(v) for v in value])
        elif arg.number_attr is not None:
            result.append([cast(v, _type(arg, types, v)) for v in value])
        else:
            result.append(cast(value, _type(arg, types, value)))
    return result


def _type(arg: ArgDef, types: Mapping[str, str], value: Any) -> DType:
    if arg.type is not None and arg.type.name == "resource":
        return as_dtype(types.get("T") or types.get("dtype") or "float32")
    if arg.type is not None:
        return arg.type
    return as_dtype(types[arg.type_attr or ""])


class Built:
    """One sample as a node `name` of a graph, its inputs fed or constant.

    form    "unknown", "ranked" or "known": placeholders of which so much of the shape is known;
            "constant": the values are in the graph
    """

    def __init__(
        self,
        graph: fe.Graph,
        record: OpRecord,
        each: Sample | BadSample,
        types: Mapping[str, str],
        form: str,
        name: str,
    ) -> None:
        self.graph, self.form, self.name = graph, form, name
        self.record, self.sample = record, each
        self.feeds: dict[str, Array] = {}
        self.setup: list[str] = []
        self.variables: list[str] = []
        attrs = dict(each.attrs)
        own = {a.name for a in record.definition.attrs if a.type == "type"} & attrs.keys()
        types = {**types, **{key: as_dtype(attrs[key]).name for key in own}}
        attrs.update({key: as_dtype(types[key]) for key in types})
        self.inputs = typed_inputs(record, each, types)
        arguments = [
            [self._argument(v, arg, types) for v in value]
            if isinstance(value, list)
            else self._argument(value, arg, types)
            for arg, value in zip(record.definition.inputs, self.inputs, strict=True)
        ]
        graph.create_op(record.op, arguments, attrs, name)
        self.node: Node = graph[name]

    def _argument(self, value: Array, arg: ArgDef, types: Mapping[str, str]) -> Any:
        if arg.is_ref or (arg.type is not None and arg.type.name == "resource"):
            return self._variable(value, arg)
        # Several types of tensors, the quantised ones, are one type of array.
        dtype = as_dtype(value.dtype) if arg.type_list_attr is not None else _type(arg, types, value)
        label = f"{self.name}_in{len(self.feeds)}"
        if self.form == "constant":
            return self.graph.constant(value, dtype)
        shape = {"unknown": None, "ranked": [None] * value.ndim, "known": value.shape}[self.form]
        self.feeds[f"{label}:0"] = value
        return self.graph.placeholder(dtype, shape, name=label)

    def _variable(self, value: Array, arg: ArgDef) -> Any:
        """A variable that holds the value once `setup` has run; `variables` reads it."""
        ops, dtype = self.graph.ops, as_dtype(value.dtype)
        label = f"{self.name}_var{len(self.variables)}"
        start = self.graph.constant(value, dtype)
        if arg.is_ref:
            variable = ops.VariableV2(dtype=dtype, shape=value.shape, name=label)
            self.setup.append(ops.Assign(variable, start).op.name)
            self.variables.append(f"{label}:0")
        else:
            variable = ops.VarHandleOp(dtype=dtype, shape=value.shape, shared_name=label, name=label)
            self.setup.append(ops.AssignVariableOp(variable, start).name)
            self.variables.append(ops.ReadVariableOp(variable, dtype=dtype).name)
        return variable

    @property
    def fetches(self) -> list[str]:
        return [f"{self.name}:{i}" for i in range(len(self.node.output_types))]

    def expected(self) -> tuple[Any, ...]:
        """The outputs, or with `updates` the variables, as the reference has them; not yet cast."""
        result = getattr(self.sample, "expected", None)
        if result is None:
            reference = self.record.reference
            assert reference is not None
            with np.errstate(all="ignore"):
                result = reference(*map(widened, self.inputs), **wanted_attrs(reference, self.node))
        return tuple(result) if isinstance(result, tuple | list) else (result,)


def wanted_attrs(function: Callable[..., Any], node: Node) -> dict[str, Any]:
    """Those attributes that the function names: in `attr_names`, or as keyword-only parameters."""
    if isinstance(function, np.ufunc):
        return {}
    names = getattr(function, "attr_names", None)
    if names is not None:
        return {name: node.attrs[name] for name in names}
    parameters = inspect.signature(function).parameters.values()
    return {p.name: node.attrs[p.name] for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
