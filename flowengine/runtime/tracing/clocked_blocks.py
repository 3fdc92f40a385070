"""Blocks with a clock between their members, for traces that name every node."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from time import perf_counter
from typing import Any

from flowengine.passes.blocks.compiled_regions import ClockedRegion
from flowengine.runtime.frames import IterationState
from flowengine.runtime.planning.items import Item, Kind
from flowengine.runtime.planning.plan import Plan
from flowengine.runtime.tracing.events import Tag
from flowengine.runtime.tracing.recorder import Recorder


class ClockedBlocks:
    """The blocks of one traced step."""

    def __init__(self, recorder: Recorder, device_name: str) -> None:
        self._recorder = recorder
        self._device_name = device_name

    def compile(self, plan: Plan) -> None:
        """Compile the copies of a plan's blocks that have none yet, and record how long that took."""
        regions = [item.region for item in plan.items if item.kind == Kind.REGION]
        if any(not region.is_clocked for region in regions):
            began = perf_counter()
            for region in regions:
                region.clocked()
            thread = threading.current_thread().name
            self._recorder.add(
                ("compile", "compiling", self._device_name, thread, (), None, began, perf_counter(), (), None)
            )

    def caller(self, item: Item, iteration: IterationState) -> Callable[[list[Any], Any], Any]:
        """Return the function of a block that records the times of its members: `call(args, ctx)`."""
        return partial(self._call, item, item.region.clocked(), iteration.tag() if iteration.serial else ())

    def around(
        self, item: Item, iteration: IterationState, function: Callable[..., Any]
    ) -> Callable[..., Any]:
        """Return the same for a block that a thread calls by this function, alone or as its one argument."""
        call = self.caller(item, iteration)
        return partial(function.func, call) if isinstance(function, partial) else call

    def _call(self, item: Item, region: ClockedRegion, tag: Tag, args: list[Any], context: Any) -> Any:
        thread = threading.current_thread().name
        mark = self._recorder.marks_of(item.node, region, self._device_name, thread, tag)
        return region.call(args, context, mark)


__all__ = ["ClockedBlocks"]
