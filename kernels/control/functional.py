"""Calls of functions of the graph and of Python."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from inspect import isawaitable
from typing import Any

from flowengine.core.arrays import WOULD_WAIT, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError, PermissionDeniedError, UnknownError
from flowengine.core.names import DeviceName
from flowengine.core.python_functions import HeldFunction, function_of
from flowengine.graphs.values import to_value
from flowengine.ir.attrs import FuncAttr
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel

# Calls of functions that are no part of their step.


@kernel("RemoteCall", heavy=False)
async def remote_call(target: Any, args: tuple[Value, ...], *, ctx: KernelContext, f: FuncAttr) -> Any:
    """The results of a function on a device of this task: all of them share its memory.

    The call is a step of its own. Raises its error, and InvalidArgumentError for a target on another task: if
    that is a constant of the graph, the function has become nodes there.
    """
    name = to_array(target)
    if name.ndim:
        raise InvalidArgumentError(
            f"the target is one device's name, a scalar, and not of shape {name.shape}"
        )
    named = DeviceName.parse(name.item().decode("utf-8", "surrogateescape"))
    here = DeviceName.parse(ctx.device)
    is_local = named.job in (None, "localhost") or (named.job, named.task or 0) == (here.job, here.task)
    if not is_local:
        raise InvalidArgumentError(
            f"the function '{f.name}' is to run on {named}, and the call is made on {here}: a function runs "
            "on another task if the target is a constant, and Config.open_calls is not off"
        )
    if ctx.functions is None:
        raise InvalidArgumentError("a function is called, and this graph has none")
    results = await ctx.functions.function(f)(args, ctx.sequences)
    return results[0] if len(results) == 1 else results


# PyFunc: a node that calls a function of the program, and waits for it where it is a coroutine function.


def _function(token: bytes, ctx: KernelContext) -> HeldFunction:
    if not ctx.python_calls:
        raise PermissionDeniedError("this session calls no Python functions: Config(python_calls=False)")
    return function_of(token.decode("utf-8", "replace"))


def _argument(value: Value) -> Any:
    """An input as a function sees it: an array that it cannot write to, or bytes."""
    array: Any = to_array(value)
    if array.dtype == object and array.shape == ():
        return array[()]
    if array.flags.writeable:
        array = array.view()
        array.flags.writeable = False
    return array


@contextmanager
def _wrapping_errors() -> Iterator[None]:
    """Raise a function's own exception as UnknownError: it is the program's, and no fault of the engine."""
    try:
        yield
    except OpError:
        raise
    except Exception as error:
        raise UnknownError(f"the function raised {type(error).__name__}: {error}") from error


def _results(made: Any, types: tuple[DType, ...]) -> Any:
    """Convert the result of a function to the outputs of its node."""
    if not types:
        if made is None or (isinstance(made, tuple | list) and not made):
            return None
        raise InvalidArgumentError(f"the function returned {type(made).__name__}; the node has no outputs")
    many = list(made) if isinstance(made, tuple | list) and len(types) != 1 else [made]
    if len(many) != len(types):
        raise InvalidArgumentError(
            f"the function returned {len(many)} values; the node has {len(types)} outputs"
        )
    values = [to_value(each, dtype)[0] for each, dtype in zip(many, types, strict=True)]
    return values[0] if len(values) == 1 else tuple(values)


def _call_nowait(
    values: tuple[Value, ...], *, token: bytes, Tout: tuple[DType, ...], ctx: KernelContext
) -> Any:
    found = _function(token, ctx)
    if found.is_async:
        return WOULD_WAIT
    with _wrapping_errors():
        made = found.function(*map(_argument, values))
    if isawaitable(made):
        if isinstance(made, Coroutine):
            made.close()
        raise InvalidArgumentError(
            "the function returned a coroutine: give graph.call the coroutine function"
        )
    return _results(made, Tout)


@kernel("PyFunc", heavy=False, nowait=_call_nowait)
@kernel("PyFuncStateless", heavy=False, nowait=_call_nowait)
async def py_func(
    values: tuple[Value, ...], *, token: bytes, Tout: tuple[DType, ...], ctx: KernelContext
) -> Any:
    """Call the function. If cancelled while the function waits, its effects so far remain."""
    found = _function(token, ctx)
    with _wrapping_errors():
        made = await found.function(*map(_argument, values))
    return _results(made, Tout)
