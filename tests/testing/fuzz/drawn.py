"""Graphs of one op whose arguments are drawn, for an op that neither a record nor a recorded graph holds.

What it takes is made by a constant or, where that is a handle, by another op that makes such a thing: first
by one whose name has a word in common. Of many draws those are kept whose arguments the op accepts.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

import numpy as np

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.graphdef import parse_graph_def
from flowengine.ir.opdef import OpDef
from flowengine.ops.load import registry
from tests.tools.fuzz.playing import play

_DRAWS: Final = 60
_DEPTH: Final = 3
_HANDLES: Final = frozenset({dtypes.resource, dtypes.variant})
_TYPES: Final = (dtypes.float32, dtypes.float32, dtypes.int32, dtypes.int64, dtypes.string)
#: Functions for attributes that name one: {name: (op, types of the arguments, type of the result)}.
_FUNCTIONS: Final = {
    "drawn_function": ("Identity", ("float32",), "float32"),
    "drawn_same": ("Identity", ("int64",), "int64"),
    "drawn_test": ("Cast", ("int64",), "bool"),
    "drawn_rows": ("TensorDataset", ("int64",), "variant"),
    "drawn_sum": ("Add", ("int64", "int64"), "int64"),
}
#: Arguments whose name says what they hold: {name: (shape, numbers)}.
_HOLDS: Final[Mapping[str, tuple[tuple[int, ...], tuple[int, ...]]]] = {
    **dict.fromkeys(("alg", "algorithm", "num_samples", "max_index", "maxval"), ((), (1,))),
    **dict.fromkeys(("minval", "index", "component_index"), ((), (0,))),
    **dict.fromkeys(("seed", "counter"), ((2,), (1, 2))),
    "key": ((1,), (7,)),
    **dict.fromkeys(("shape", "dense_shape", "sparse_shape", "gradient_shape"), ((2,), (2, 2))),
    **dict.fromkeys(("sparse_indices", "indices"), ((2, 2), (0, 0, 1, 1))),
    **dict.fromkeys(("values", "sparse_values"), ((2,), (3, 5))),
}


def graphs(op: str, runs_here: frozenset[str], count: int) -> list[bytes]:
    """At most so many graphs that hold the op; those that run come first."""
    good: list[bytes] = []
    others: list[bytes] = []
    for draw in range(_DRAWS):
        data = _Draw(random.Random(f"{op}:{draw}"), runs_here).graph(op)
        if data is None:
            continue
        try:
            told = play("calls", data)
        except Exception as error:
            told = type(error).__name__
        accepted = told not in ("ConstructionValueError", "ConstructionTypeError", "InvalidArgumentError")
        (good if accepted else others).append(data)
        if len(good) == count:
            break
    return [*good, *others][:count]


def _words(name: str) -> frozenset[str]:
    return frozenset(re.findall(r"[A-Z][a-z]+", name)) - {"Dataset", "Experimental"}


@cache
def _producers(wanted: DType, is_ref: bool, runs_here: frozenset[str]) -> Sequence[OpDef]:
    """The ops of one output that is such a handle."""
    found = []
    for name in sorted(runs_here & set(registry())):
        definition = registry()[name]
        outputs = definition.outputs
        if len(outputs) == 1 and outputs[0].type == wanted and outputs[0].is_ref == is_ref:
            found.append(definition)
    return found


class _Draw:
    """One graph, made node by node."""

    def __init__(self, chance: random.Random, runs_here: frozenset[str]) -> None:
        self._chance = chance
        self._runs_here = runs_here
        self._graph: Any = parse_graph_def(b"")

    def graph(self, op: str) -> bytes | None:
        """A graph with a node of the op; None where nothing makes what it takes."""
        if self._node(registry()[op], _DEPTH) is None:
            return None
        named = {attr.func.name for node in self._graph.node for attr in node.attr.values()}
        for function in sorted(named & _FUNCTIONS.keys()):
            self._add_function(function)
        return bytes(self._graph.SerializeToString(deterministic=True))

    def _node(self, definition: OpDef, depth: int) -> str | None:
        attrs: dict[str, Any] = {attr.name: self._attribute(attr, definition) for attr in definition.attrs}
        inputs: list[str] = []
        for argument in definition.inputs:
            for dtype in argument.types(attrs):
                port = self._value(dtype, argument, definition, depth - 1)
                if port is None:
                    return None
                inputs.append(port)
        node = self._graph.node.add()
        node.name = f"node_{len(self._graph.node)}"
        node.op = definition.name
        node.input.extend(inputs)
        node.input.extend(f"^{each.name}" for each in self._graph.node if each.op == "AssignVariableOp")
        _write(node, definition, attrs)
        return str(node.name)

    def _made(self, op: str, inputs: Sequence[str], **attrs: Any) -> str:
        """A node with these attributes; the others have their defaults."""
        definition = registry()[op]
        node = self._graph.node.add()
        node.name = f"node_{len(self._graph.node)}"
        node.op = op
        node.input.extend(inputs)
        _write(node, definition, {attr.name: attrs.get(attr.name, attr.default) for attr in definition.attrs})
        return str(node.name)

    def _object(self, argument: ArgDef, definition: OpDef) -> str | None:
        """Make the object behind a handle whose name, or op's name, says which; None if neither does."""
        op = definition.name
        if "dataset" in argument.name and argument.type == dtypes.variant:
            numbers = [self._numbers(dtypes.int64, (), (each,)) for each in (0, 6, 1)]
            return self._made("RangeDataset", numbers, output_types=(dtypes.int64,), output_shapes=((),))
        if op.startswith(("SparseMatrix", "CSRSparse")):
            dense = self._numbers(dtypes.float32, (2, 2), (4, 0, 0, 9))
            places = self._numbers(dtypes.int64, (2, 2), (0, 0, 1, 1))
            return self._made("DenseToCSRSparseMatrix", [dense, places], T=dtypes.float32)
        if op.startswith("TensorList") and argument.type == dtypes.variant:
            rows = self._numbers(dtypes.float32, (2, 2), (1, 2, 3, 4))
            size = self._numbers(dtypes.int32, (1,), (2,))
            kinds = {"element_dtype": dtypes.float32, "shape_type": dtypes.int32}
            return self._made("TensorListFromTensor", [rows, size], **kinds)
        if op.startswith("TensorMap"):
            key, value = (self._numbers(dtypes.int64, (), (each,)) for each in (1, 2))
            kinds = {"key_dtype": dtypes.int64, "value_dtype": dtypes.int64}
            return self._made("TensorMapInsert", [self._made("EmptyTensorMap", []), key, value], **kinds)
        if argument.name == "resource" and op.startswith(("Stateful", "Rng")):
            variable = self._made("VarHandleOp", [], dtype=dtypes.int64, shape=(3,))
            state = self._numbers(dtypes.int64, (3,), (1, 2, 3))
            self._made("AssignVariableOp", [variable, state], dtype=dtypes.int64)
            return variable
        return None

    def _attribute(self, attr: AttrDef, definition: OpDef) -> Any:
        chance = self._chance
        if "Dataset" in definition.name and chance.random() < 0.8:
            if attr.name in ("output_types", "Toutput_types", "Tstate"):
                return (dtypes.int64,)
            if attr.name == "output_shapes":
                return ((),)
            if attr.type == "list(type)":  # what the functions capture
                return ()
        if attr.has_default and chance.random() < 0.9:
            return attr.default
        allowed = list(attr.allowed or ())
        kind = attr.type.removeprefix("list(").removesuffix(")")
        types = [each for each in _TYPES if not allowed or each in allowed] or allowed or list(_TYPES)
        counts = any(each.number_attr == attr.name for each in (*definition.inputs, *definition.outputs))
        one: dict[str, Any] = {
            "type": chance.choice(types) if kind == "type" else None,
            "int": max(attr.minimum or 0, 1) if counts else chance.choice([attr.minimum or 0, 1, 2]),
            "float": 0.5,
            "bool": chance.random() < 0.5,
            "string": chance.choice(allowed or [b"a"]) if kind == "string" else b"",
            "shape": chance.choice([(), (2,), (-1,), None]),
            "func": chance.choice(sorted(_FUNCTIONS)),
        }
        return (one[kind],) if attr.type.startswith("list(") else one.get(kind)

    def _value(self, dtype: DType, argument: ArgDef, definition: OpDef, depth: int) -> str | None:
        if argument.is_ref or dtype.base in _HANDLES:
            if not argument.is_ref and (made := self._object(argument, definition)) is not None:
                return made
            makers = _producers(dtype.base, argument.is_ref, self._runs_here) if depth else ()
            near = [each for each in makers if _words(each.name) & _words(definition.name)]
            chosen = near if near and self._chance.random() < 0.8 else makers
            chosen = [each for each in chosen if each is not definition]
            return self._node(self._chance.choice(chosen), depth) if chosen else None
        held = _HOLDS.get(argument.name)
        if held is not None and dtype != dtypes.string and self._chance.random() < 0.8:
            return self._numbers(dtype, *held)
        return self._constant(dtype, ((),) if "Dataset" in definition.name else ((), (), (1,), (2,), (2, 2)))

    def _numbers(self, dtype: DType, shape: tuple[int, ...], numbers: Sequence[int]) -> str:
        """A constant of these numbers."""
        name = self._constant(dtype, (shape,))
        content = np.array(numbers).astype(dtype.as_numpy_dtype).tobytes()
        self._graph.node[-1].attr["value"].tensor.tensor_content = content
        return name

    def _constant(self, dtype: DType, shapes: Sequence[tuple[int, ...]]) -> str:
        node = self._graph.node.add()
        node.name = f"constant_{len(self._graph.node)}"
        node.op = "Const"
        node.attr["dtype"].type = dtype.number
        tensor = node.attr["value"].tensor
        tensor.dtype = dtype.number
        shape = self._chance.choice(shapes)
        for size in shape:
            tensor.tensor_shape.dim.add().size = size
        count = int(np.prod(shape))
        if dtype == dtypes.string:
            tensor.string_val.extend([self._chance.choice([b"", b"a", b"node_1"]) for _ in range(count)])
        else:
            numbers = [self._chance.choice([0, 1, 1, 2, 3]) for _ in range(count)]
            tensor.tensor_content = np.array(numbers).astype(dtype.as_numpy_dtype).tobytes()
        return str(node.name)

    def _add_function(self, called: str) -> None:
        op, arguments, result = _FUNCTIONS[called]
        function = self._graph.library.function.add()
        function.signature.name = called
        node = function.node_def.add()
        node.name = "body"
        node.op = op
        for place, dtype in enumerate(arguments):
            argument = function.signature.input_arg.add()
            argument.name = f"x{place}"
            argument.type = dtypes.as_dtype(dtype).number
            node.input.append(argument.name)
        out = function.signature.output_arg.add()
        out.name = "y"
        out.type = dtypes.as_dtype(result).number
        definition = registry()[op]
        kinds: dict[str, Any] = {"Toutput_types": (dtypes.int64,), "output_shapes": ((),)}
        kinds |= {"T": dtypes.as_dtype(arguments[0]), "SrcT": dtypes.int64, "DstT": dtypes.bool_}
        _write(node, definition, {attr.name: kinds.get(attr.name, attr.default) for attr in definition.attrs})
        function.ret["y"] = f"body:{definition.outputs[0].name}:0"


def _write(node: Any, definition: OpDef, attrs: Mapping[str, Any]) -> None:
    """Those attributes that have no default, or another value than it."""
    for attr in definition.attrs:
        value = attrs[attr.name]
        if value is None or (attr.has_default and value is attr.default):
            continue
        target = node.attr[attr.name]
        kind = attr.type.removeprefix("list(").removesuffix(")")
        if attr.type.startswith("list("):
            target.list.SetInParent()
            for each in value:
                _set(target.list, kind, each, is_list=True)
        else:
            _set(target, kind, value, is_list=False)


def _set(target: Any, kind: str, value: Any, *, is_list: bool) -> None:
    field = {
        "type": "type",
        "int": "i",
        "float": "f",
        "bool": "b",
        "string": "s",
        "shape": "shape",
        "func": "func",
    }
    name = field.get(kind)
    if name is None:
        return
    if kind == "shape":
        message = target.shape.add() if is_list else target.shape
        message.unknown_rank = value is None
        for size in value or ():
            message.dim.add().size = size
        return
    if kind == "func":
        message = target.func.add() if is_list else target.func
        message.name = value
        return
    if kind == "type":
        value = value.number
    elif kind == "string" and isinstance(value, str):
        value = value.encode()
    if is_list:
        getattr(target, name).append(value)
    else:
        setattr(target, name, value)
