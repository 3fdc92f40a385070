"""Calls of functions that are no part of their step."""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Value
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.attrs import FuncAttr
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel


@kernel("RemoteCall", heavy=False)
async def remote_call(target: Any, args: tuple[Value, ...], *, ctx: KernelContext, f: FuncAttr) -> Any:
    """The results of a function on a device of this process: all of them share its memory.

    The call is a step of its own. Raises its error.
    """
    if ctx.functions is None:
        raise InvalidArgumentError("a function is called, and this graph has none")
    results = await ctx.functions.function(f)(args, ctx.sequences)
    return results[0] if len(results) == 1 else results
