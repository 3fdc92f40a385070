"""`StepGuard`: the hook by which the steps of a training loop run under the guard."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.paths import path_text
from flowengine.train.hooks.hook import Hook, LoopState


class StepGuard(Hook):
    """Ends a loop at the first node that makes NaN or an infinity of finite inputs, and names it.

    bounds    {pattern of node names: (least, largest value)}: values out of them end the loop, too
    file      a .npz file for the inputs and outputs of that node
    first     the number of the first step that is guarded, such as one shortly before a loss became NaN

    Guarded steps run uncompiled, and give the same values to the bit. `fe.train.StopAtNaN` costs nothing, but
    sees only fetched numbers. The loop raises the guard's InvalidArgumentError, with the node, its iteration,
    its line and a digest of its inputs; the effects of the step's earlier nodes stay. It raises
    InvalidArgumentError, too, if a function runs the steps.

    >>> graph = fe.Graph()
    >>> w = graph.variable(1.0, name="w")
    >>> loss = fe.log(w, name="loss")
    >>> step = fe.optimizers.SGD(0.6).minimize(loss)
    >>> options = {"fetches": {"loss": loss}, "hooks": [fe.train.StepGuard()], "quiet": True}
    >>> with fe.blocking.Session(graph) as session:
    ...     try:
    ...         fe.blocking.loop(session, step, steps=9, **options)
    ...     except fe.errors.InvalidArgumentError as error:
    ...         print(error.node_name)
    loss
    """

    def __init__(
        self,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        *,
        file: str | os.PathLike[str] | None = None,
        first: int = 1,
    ) -> None:
        if first < 1:
            raise InvalidArgumentError(f"first is at least 1, not {first}")
        self._bounds = bounds or True
        self._file = None if file is None else path_text(file, "fe.train.StepGuard")
        self._first = first

    async def begin(self, state: LoopState) -> None:
        if state.fetched is None:
            raise InvalidArgumentError(
                "StepGuard: a function runs the steps: let it run them with fe.RunOptions(guard=True)"
            )
        replace(state.options, guard=self._bounds)  # raises for bounds that are none

    async def before_step(self, state: LoopState) -> None:
        if state.step + 1 >= self._first:
            if state.options.trace is not None:
                raise InvalidArgumentError("StepGuard: the step is traced, so that it cannot be guarded, too")
            state.options = replace(state.options, guard=self._bounds, guard_file=self._file)


__all__ = ["StepGuard"]
