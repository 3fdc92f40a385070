"""Calls of functions that are no part of their step."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Value, to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName
from flowengine.ir.attrs import FuncAttr
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel


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
