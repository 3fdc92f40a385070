"""From what a user writes for an attribute to the value that a node keeps (see `ir.attrs`)."""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.suggest import close_matches
from flowengine.core.shapes import TensorShape
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError
from flowengine.graphs.values import to_value
from flowengine.ir.argdef import AttrDef
from flowengine.ir.attrs import AttrValue, FuncAttr, PlaceholderAttr, TensorAttr
from flowengine.ir.opdef import OpDef


def to_attr(op: str, attr: AttrDef, value: Any) -> AttrValue:
    """The value of one attribute, checked against its definition.

    Raises InvalidArgumentError naming the op, the attribute and the allowed values.
    """
    if isinstance(value, PlaceholderAttr):
        return value
    try:
        if attr.type.startswith("list("):
            if isinstance(value, str | bytes) or not hasattr(value, "__iter__"):
                raise InvalidArgumentError(f"{value!r} is not a list")
            one = _CONVERTERS[attr.type[5:-1]]
            result: AttrValue = tuple([one(item) for item in value])
        else:
            result = _CONVERTERS[attr.type](value)
    except (TypeError, ValueError, struct.error, InvalidArgumentError) as error:
        reason = error.message if isinstance(error, InvalidArgumentError) else str(error)
        raise ConstructionTypeError(f"{op}: attribute '{attr.name}' ({attr.type}): {reason}") from None
    check_attr(op, attr, result)
    return result


def check_attr(op: str, attr: AttrDef, value: AttrValue) -> None:
    """Whether a value is among the allowed ones; InvalidArgumentError listing them if not."""
    if attr.allowed is not None:
        for item in value if isinstance(value, tuple) else (value,):
            if (item.base if isinstance(item, DType) else item) not in attr.allowed:
                shown = item.decode(errors="replace") if isinstance(item, bytes) else item
                kind = ConstructionTypeError if isinstance(item, DType) else ConstructionValueError
                raise kind(
                    f"{op}: attribute '{attr.name}' cannot be {shown}; allowed: "
                    + ", ".join(a.decode() if isinstance(a, bytes) else str(a) for a in attr.allowed)
                )
    if attr.minimum is not None:
        size = len(value) if isinstance(value, tuple) else value
        if size < attr.minimum:
            what = "has length" if isinstance(value, tuple) else "is"
            raise InvalidArgumentError(
                f"{op}: attribute '{attr.name}' {what} {size}; it must be at least {attr.minimum}"
            )


def unknown_attr(definition: OpDef, name: str) -> ConstructionTypeError:
    """The error for a keyword that is neither attribute nor input of the op."""
    known = [a.name for a in definition.attrs] + [a.name for a in definition.inputs]
    close = close_matches(name, known)
    hint = f"; did you mean '{close[0]}'?" if close else f"; it has: {', '.join(known) or 'none'}"
    return ConstructionTypeError(f"{definition.name} has no input or attribute '{name}'{hint}")


def free_attr(name: str, value: Any) -> AttrValue:
    """An attribute that no definition describes (`_name`), typed by its value."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return _float(value)
    if isinstance(value, str | bytes):
        return _string(value)
    if isinstance(value, DType | TensorShape | TensorAttr | FuncAttr | PlaceholderAttr) or value is None:
        return value
    if isinstance(value, np.ndarray):
        return _tensor(value)
    if isinstance(value, list | tuple):
        return tuple(free_attr(name, item) for item in value)
    raise InvalidArgumentError(f"attribute '{name}': {value!r} is no attribute value")


def _int(value: Any) -> int:
    if isinstance(value, bool):
        raise InvalidArgumentError(f"{value!r} is not an int")
    number = operator.index(value)
    if not -(2**63) <= number < 2**63:
        raise InvalidArgumentError(f"{number} does not fit into 64 bits")
    return number


def _float(value: Any) -> float:
    # As a GraphDef holds it, so that a graph keeps its values when written and read.
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        raise InvalidArgumentError(f"{value!r} does not fit into a float32") from None
    return rounded


def _bool(value: Any) -> bool:
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise InvalidArgumentError(f"{value!r} is not True or False")


def _string(value: Any) -> bytes:
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    raise InvalidArgumentError(f"{value!r} is not a string")


def _shape(value: Any) -> TensorShape:
    if isinstance(value, int):
        raise InvalidArgumentError(f"{value!r} is not a shape: write [{value}]")
    return TensorShape(value)


def _tensor(value: Any) -> TensorAttr:
    if isinstance(value, TensorAttr):
        return value
    converted, dtype = to_value(value)
    return constant(converted, dtype)


def constant(value: Any, dtype: DType) -> TensorAttr:
    """A tensor value as an attribute, of known shape."""
    return TensorAttr(dtype, TensorShape(to_array(value).shape), lambda: value)


def _func(value: Any) -> FuncAttr:
    if isinstance(value, FuncAttr):
        return value
    if isinstance(value, str):
        return FuncAttr(value)
    raise InvalidArgumentError(f"{value!r} is not a function's name")


_CONVERTERS: Final[Mapping[str, Callable[[Any], AttrValue]]] = {
    "int": _int,
    "float": _float,
    "bool": _bool,
    "string": _string,
    "type": as_dtype,
    "shape": _shape,
    "tensor": _tensor,
    "func": _func,
}
