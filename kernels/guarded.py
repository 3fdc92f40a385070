"""Kernels from outside of this package: their inputs are read-only, and their outputs are checked.

The tests cover each kernel of this package, but not a user's. `guarded` binds such a kernel to a node and
checks that its outputs match the op's definition; otherwise an error names op, kernel and output. Only nodes
with such kernels take this time.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import WOULD_WAIT, describe
from flowengine.core.dtypes import DType, resource, string, variant
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node
from flowengine.ops.concrete import ConcreteInputs

#: The version of TensorFlow's graphs for which shape functions are called.
_PRODUCER: Final = 134
#: Types whose values may be any object, because they are handles.
_HANDLES: Final = (resource, variant)


def name_of(function: Any) -> str:
    """Return a kernel's name for error messages."""
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None)
    module = getattr(function, "__module__", None)
    return f"{module}.{name}" if name and module else name or repr(function)


def check_arguments(function: Any, attr_names: Sequence[str], takes_xp: bool, node: Node) -> None:
    """Refuse a kernel that asks for what its op does not have; InvalidArgumentError names both."""
    definition = node.op_def
    if definition is None:
        return
    known = {attr.name for attr in definition.attrs} | {"node", "num_outputs"}
    for name in attr_names:
        if name not in known:
            offers = ", ".join(sorted(attr.name for attr in definition.attrs)) or "none"
            raise InvalidArgumentError(
                f"kernel {name_of(function)} asks for the attribute '{name}', which op {node.op} does not "
                f"have (its attributes: {offers})"
            )
    if isinstance(function, np.ufunc):
        _check_ufunc(function, node)
        return
    try:
        parameters = list(inspect.signature(function).parameters.values())[1 if takes_xp else 0 :]
    except ValueError:
        return  # a function in C may have no signature
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    least = sum(p.default is p.empty for p in positional)
    given = len(definition.inputs)
    if not least <= given <= len(positional):
        names = ", ".join(arg.name for arg in definition.inputs) or "none"
        raise InvalidArgumentError(
            f"kernel {name_of(function)} takes {least} inputs, op {node.op} has {given} ({names}); "
            "attributes are keyword-only parameters, behind a `*`"
        )


def _check_ufunc(function: np.ufunc, node: Node) -> None:
    """A ufunc says itself what it gives."""
    types = [dtype.base for dtype in (*node.input_types(), *node.output_types)]
    if function.nin != len(node.inputs) or function.nout != len(node.output_types):
        raise InvalidArgumentError(
            f"kernel {name_of(function)} is a ufunc of {function.nin} inputs and {function.nout} outputs, op "
            f"{node.op} has {len(node.inputs)} and {len(node.output_types)}"
        )
    if any(dtype in (string, *_HANDLES) for dtype in types):
        return
    inputs = [dtype.as_numpy_dtype for dtype in types[: function.nin]]
    try:
        found = function.resolve_dtypes((*inputs, *(None,) * function.nout))[function.nin :]
    except TypeError:
        return  # each call raises it, and dtypes of other packages cannot be resolved
    for dtype, wanted in zip(found, types[function.nin :], strict=True):
        if dtype != wanted.as_numpy_dtype:
            raise InvalidArgumentError(
                f"kernel {name_of(function)} of op {node.op} gives {dtype} for inputs of "
                f"{', '.join(map(str, inputs))}; {wanted.name} is due"
            )


def guarded(
    function: Callable[..., Any], original: Any, node: Node, *, of_numpy: bool, checks_shapes: bool = False
) -> Callable[..., Any]:
    """`function`, with what it is given and gives looked at.

    original       the kernel as its author wrote it, for errors
    of_numpy       whether it gives NumPy's arrays: on other devices they may be of any class
    checks_shapes  whether the shapes that it gives are held to the op's shape function
    """

    def check(outputs: Any, inputs: Sequence[Any]) -> Any:
        outputs = _checked(outputs, node=node, kernel=original, of_numpy=of_numpy)
        if checks_shapes and outputs is not WOULD_WAIT:
            _check_shapes(outputs, inputs, node, original)
        return outputs

    if inspect.iscoroutinefunction(original):

        @functools.wraps(original)
        async def waits(*inputs: Any, **keywords: Any) -> Any:
            return check(await function(*map(_lent, inputs), **keywords), inputs)

        return waits

    def computes(*inputs: Any, **keywords: Any) -> Any:
        return check(function(*map(_lent, inputs), **keywords), inputs)

    return computes


def _lent(value: Any) -> Any:
    """An input that a kernel cannot write to: it may be the caller's own feed, or what others read."""
    if type(value) is np.ndarray:
        if value.flags.writeable:
            value = value.view()
            value.flags.writeable = False
    elif type(value) is tuple:
        return tuple(map(_lent, value))
    return value


def _checked(outputs: Any, *, node: Node, kernel: Any, of_numpy: bool) -> Any:
    """Return a kernel's outputs, if the op's definition allows them."""
    if outputs is WOULD_WAIT:
        return outputs
    types = node.output_types
    if len(types) == 1:
        fault = _fault(outputs, types[0], of_numpy)
        if fault is not None:
            raise _refused(node, kernel, 0, fault)
        return outputs
    if not types:
        if outputs is None or (isinstance(outputs, tuple) and not outputs):
            return None
        raise InvalidArgumentError(
            f"kernel {name_of(kernel)} of op {node.op} gave {_described(outputs)}: the op has no outputs, "
            "return None"
        )
    if not isinstance(outputs, tuple | list) or len(outputs) != len(types):
        gave = f"{len(outputs)} values" if isinstance(outputs, tuple | list) else _described(outputs)
        raise InvalidArgumentError(
            f"kernel {name_of(kernel)} gave {gave} for the {len(types)} outputs of op {node.op}: return them "
            "as one tuple, in the order of the definition"
        )
    for index, (value, dtype) in enumerate(zip(outputs, types, strict=True)):
        fault = _fault(value, dtype, of_numpy)
        if fault is not None:
            raise _refused(node, kernel, index, fault)
    return tuple(outputs)


def _check_shapes(outputs: Any, inputs: Sequence[Any], node: Node, kernel: Any) -> None:
    """InvalidArgumentError for an output of another shape than the op's shape function says."""
    definition = node.op_def
    if definition is None or definition.shape is None:
        return
    flat = [each for value in inputs for each in (value if type(value) is tuple else (value,))]
    try:
        promised = definition.shape(ConcreteInputs(node, flat, _PRODUCER))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"kernel {name_of(kernel)} takes inputs that the shape function of op {node.op} refuses: "
            f"{error.message}"
        ) from error
    values = outputs if len(node.output_types) != 1 else (outputs,)
    for index, (value, shape) in enumerate(zip(values or (), promised, strict=False)):
        found = () if isinstance(value, bytes) else getattr(value, "shape", None)
        if isinstance(found, tuple) and not shape.is_compatible_with(TensorShape(found)):
            fault = f"it has shape {list(found)} where the op's shape function says {shape}"
            raise _refused(node, kernel, index, fault)


def _refused(node: Node, kernel: Any, index: int, fault: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"kernel {name_of(kernel)} of op {node.op}, output {index}{_called(node, index)}: {fault}"
    )


def _called(node: Node, index: int) -> str:
    definition = node.op_def
    if definition is None or any(arg.is_list for arg in definition.outputs):
        return ""
    return f" ('{definition.outputs[index].name}')"


def _fault(value: Any, dtype: DType, of_numpy: bool) -> str | None:
    """Describe the fault of one output; None if there is none."""
    if value is None:
        return f"it is None where {dtype.name} is due"
    if dtype.is_ref or dtype in _HANDLES:
        return None
    if dtype is string:
        return _text_fault(value)
    if isinstance(value, np.ndarray):
        if type(value) is not np.ndarray:
            return f"it is a {type(value).__name__}: give a plain array, as `numpy.asarray` makes it"
    elif not isinstance(value, np.generic) and (of_numpy or not hasattr(value, "dtype")):
        due = f"it is {_described(value)} where {dtype.name} is due"
        return f"{due}: give an array or a NumPy scalar of that dtype"
    if value.dtype != dtype.as_numpy_dtype:
        return f"it is {describe(value)} where {dtype.name} is due: give `.astype(numpy.{dtype.name})`"
    return None


def _text_fault(value: Any) -> str | None:
    if type(value) is bytes:
        return None
    if type(value) is not np.ndarray or value.dtype != object:
        return f"it is {_described(value)} where string is due: give bytes, or an object array of bytes"
    for element in value.flat:
        if type(element) is not bytes:
            return f"an element is {_described(element)} where string is due: each must be bytes"
    return None


def _described(value: Any) -> str:
    kind = describe(value)
    if isinstance(value, tuple | list):
        return f"a {kind} of {len(value)}"
    return kind if "[" in kind else f"a {kind}" if kind != "NoneType" else "None"


__all__ = ["check_arguments", "guarded", "name_of"]
