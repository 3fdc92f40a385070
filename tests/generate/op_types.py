"""The text of `flowengine/graphs/op_types.pyi`: what type checkers see of `graph.ops`.

    python -m tests.generate.op_types      # prints it

One method for each op of this package's registry, and one named tuple for each list of outputs.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Final

from flowengine.graphs.signature import attributes_of_inputs
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.opdef import OpDef
from flowengine.ops.load import registry

#: Types begin with an underscore here, because an op may be called as one of them is: there is an op `Any`.
HEAD: Final = '''\
"""The constructors of `graph.ops`, one for each op. Written by `make generate`, from the ops' definitions."""

from collections.abc import Callable as _Callable, Sequence as _Sequence
from typing import Any as _Any, NamedTuple as _NamedTuple, TypeAlias as _TypeAlias
from typing import SupportsFloat as _Float, SupportsIndex as _Int

import numpy as _np
from numpy.typing import NDArray as _NDArray

from flowengine.core.dtypes import DType as _DType
from flowengine.core.shapes import TensorShape as _TensorShape
from flowengine.graphs.conversion import Convertible as _Convertible
from flowengine.graphs.tensor import Operation as _Operation, Tensor as _Tensor
from flowengine.ir.attrs import FuncAttr as _FuncAttr, TensorAttr as _TensorAttr

_Symbolic: _TypeAlias = _Tensor | _Convertible
_Scalar: _TypeAlias = bool | int | float | complex | str | bytes | _np.generic
_In: _TypeAlias = _Symbolic | _Scalar | _NDArray[_Any] | _Sequence[_In]
_Bool: _TypeAlias = bool | _np.bool_
_String: _TypeAlias = str | bytes
_Type: _TypeAlias = _DType | str | int | type | _np.dtype[_Any]
_Shape: _TypeAlias = _TensorShape | _Sequence[_Int | None] | None
_Value: _TypeAlias = _TensorAttr | _Scalar | _NDArray[_Any] | _Sequence[_Value]
_Func: _TypeAlias = _FuncAttr | str
_N: _TypeAlias = str | None
'''

CLASS: Final = ("class Ops:", "    def __getitem__(self, op: str, /) -> _Callable[..., _Any]: ...")

_ATTRS: Final = {
    "int": "_Int",
    "float": "_Float",
    "bool": "_Bool",
    "string": "_String",
    "type": "_Type",
    "shape": "_Shape",
    "tensor": "_Value",
    "func": "_Func",
}

#: Lists of these may be given as an array.
_NUMBERS: Final = frozenset({"int", "float", "bool"})
#: What only a node of the graph can give.
_HANDLES: Final = frozenset({"resource", "variant"})


def source(definitions: list[OpDef]) -> str:
    """The stub of these ops, but those of namespaces (`Addons>Resampler`), which no attribute can name."""
    tuples: dict[tuple[tuple[str, str], ...], str] = {}
    definitions = [each for each in definitions if each.name.isidentifier()]
    methods = [_method(each, _result(each, tuples)) for each in definitions]
    return "\n".join([HEAD, *_named_tuples(tuples), *CLASS, *methods, ""])


def _named_tuples(tuples: dict[tuple[tuple[str, str], ...], str]) -> Iterator[str]:
    for fields, name in tuples.items():
        yield f"class {name}(_NamedTuple):"
        for field, kind in fields:
            # A tuple has methods of these names.
            ignored = "  # type: ignore[assignment]" if field in ("count", "index") else ""
            yield f"    {field}: {kind}{ignored}"
        yield ""


def _result(definition: OpDef, tuples: dict[tuple[tuple[str, str], ...], str]) -> str:
    """The type of what a constructor returns."""
    outputs = definition.outputs
    if not outputs:
        return "_Operation"
    if len(outputs) == 1:
        return _output(outputs[0])
    fields = tuple([(each.name, _output(each)) for each in outputs])
    return tuples.setdefault(fields, f"_{definition.name}")


def _output(arg: ArgDef) -> str:
    return "tuple[_Tensor, ...]" if arg.is_list else "_Tensor"


def _method(definition: OpDef, result: str) -> str:
    implied = attributes_of_inputs(definition)
    parameters = ["self", *(f"{arg.name}: {_input(arg)}" for arg in definition.inputs), "*", "name: _N = ..."]
    if sum(attr.type == "tensor" for attr in definition.attrs) == 1:
        # The type of a value is that of the attribute which says it.
        implied |= {attr.name for attr in definition.attrs if attr.type == "type"}
    parameters += [_attribute(attr, attr.has_default or attr.name in implied) for attr in definition.attrs]
    return f"    def {definition.name}({', '.join(parameters)}) -> {result}: ..."


def _input(arg: ArgDef) -> str:
    one = "_Symbolic" if arg.is_ref or (arg.type is not None and arg.type.name in _HANDLES) else "_In"
    return f"_Sequence[{one}]" if arg.is_list else one


def _attribute(attr: AttrDef, may_be_left_out: bool) -> str:
    is_list = attr.type.startswith("list(")
    one = attr.type[5:-1] if is_list else attr.type
    kind = f"_Sequence[{_ATTRS[one]}]" if is_list else _ATTRS[one]
    if is_list and one in _NUMBERS:
        kind += " | _NDArray[_Any]"
    if not may_be_left_out:
        return f"{attr.name}: {kind}"
    return f"{attr.name}: {kind} = ..." if kind == "_Shape" else f"{attr.name}: {kind} | None = ..."


if __name__ == "__main__":
    known = registry()
    sys.stdout.write(source([known[name] for name in known]))
