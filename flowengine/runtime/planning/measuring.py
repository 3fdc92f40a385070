"""Steps that are measured, and placed again from their measured times.

A measured step is planned with kernels that record the time and the bytes of each call; nothing else knows of
it, and a step that is not measured pays nothing. The first step is not measured: it finds modules to import
and memory to touch. Late work of a device is measured by its own events. After two measured steps, the step
is placed again from measured costs; if that promises enough it is planned and measured anew, a few times at
most. At last, if the step is spread over devices that share a host, it runs on one of them: devices that
share an event loop and cores may be faster so, which only a measurement can tell.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from time import perf_counter
from typing import Any, Final, Generic, TypeVar

from flowengine.devices.launch_record import WORK_STREAM, LaunchRecord
from flowengine.ir.graph import Node, NodeGraph
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.context import PassContext
from flowengine.passes.place.costs import CostModel
from flowengine.passes.place.placer import REPLACING_WORTH
from flowengine.runtime.planning.placing import SessionPlacer

#: Steps that are measured before the next placement: two say whether the first was an exception.
MEASURED_STEPS: Final = 2
#: The maximum number of times that a request is placed again.
ROUNDS_MAX: Final = 4

#: One device instead of several that share a host must be faster by this share: steps vary by as much.
TOGETHER_WORTH: Final = 0.05

PlanType = TypeVar("PlanType")
#: From kernels and the name of a device to kernels that measure.
Measure = Callable[[KernelRegistry, str], KernelRegistry]


class StepCosts:
    """The costs of one step's nodes: {(node, device): [microseconds, calls, bytes of the outputs]}.

    launches   the work of devices that do it later: there the calls tell nothing
    """

    def __init__(self) -> None:
        self._calls: dict[tuple[str, str], list[Any]] = {}
        self.launches: list[LaunchRecord] = []

    def kernels(self, kernels: KernelRegistry, device: str) -> KernelRegistry:
        """Return kernels that record their times on a device here."""
        return _MeasuredKernels(kernels, device, self)

    def note(self, node: str, device: str, seconds: float, sizes: tuple[float, ...]) -> None:
        found = self._calls.setdefault((node, device), [0.0, 0, ()])
        found[0] += seconds * 1e6
        found[1] += 1
        found[2] = sizes

    def note_part(self, call: str, device: str, seconds: float) -> None:
        """Record a kernel within a function call: the call costs the sum of its kernels."""
        self._calls.setdefault((call, device), [0.0, 1, ()])[0] += seconds * 1e6

    def give_to(self, model: CostModel, within: NodeGraph) -> None:
        """Record the nodes of a graph (not those that partitioning made) and begin again."""
        late: dict[tuple[str, str], float] = {}
        for record in self.launches:
            if record.stream == WORK_STREAM:
                key = record.node, record.device
                late[key] = late.get(key, 0.0) + (record.ended - record.began) * 1e6
        for (node, device), (microseconds, calls, sizes) in self._calls.items():
            if node in within:
                model.record(node, device, late.get((node, device), microseconds), sizes, calls)
        self.clear()

    def clear(self) -> None:
        """Forget the records since the last step."""
        self._calls.clear()
        # A kernel that still writes into the list of a failed step writes for nobody.
        self.launches = []


class _MeasuredKernels(KernelRegistry):
    """Another registry's kernels, timed."""

    def __init__(self, kernels: KernelRegistry, device: str, costs: StepCosts) -> None:
        super().__init__(parent=kernels)
        self._source = kernels
        self._device = device
        self._costs = costs

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        return self._source.candidates(op, device)

    def __iter__(self) -> Iterator[Kernel]:
        return iter(self._source)

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        kernel = self._source.find(node, device)
        if kernel.is_async or inspect.isgeneratorfunction(kernel.function):
            return kernel  # most of its time is waiting
        return replace(kernel, function=self._timed(kernel.function, node.name), inline=None)

    def inside(self, call: Node) -> KernelRegistry:
        return _MeasuredWithin(self._source, self._device, self._costs, call.name)

    def _timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        device, note, costs = self._device, self._costs.note, self._costs

        def call(*args: Any, **keywords: Any) -> Any:
            crossing = getattr(keywords.get("ctx"), "crossing", None)
            if crossing is not None:
                crossing.note_launches(costs.launches)
            started = perf_counter()
            result = function(*args, **keywords)
            taken = perf_counter() - started
            outputs = result if isinstance(result, tuple) else (result,)
            note(name, device, taken, tuple([float(getattr(value, "nbytes", 0)) for value in outputs]))
            return result

        return call


class _MeasuredWithin(_MeasuredKernels):
    """The kernels of one function call, with calls in it: timed for the call's account."""

    def __init__(self, kernels: KernelRegistry, device: str, costs: StepCosts, call: str) -> None:
        super().__init__(kernels, device, costs)
        self._call = call

    def inside(self, call: Node) -> KernelRegistry:
        return self

    def _timed(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        device, note, account = self._device, self._costs.note_part, self._call

        def call(*args: Any, **keywords: Any) -> Any:
            started = perf_counter()
            result = function(*args, **keywords)
            note(account, device, perf_counter() - started)
            return result

        return call


class PlacementMeasurement(Generic[PlanType]):
    """One request on its way to a placement from measured costs.

    plan        the plan of the next step
    placement   {node: device} of that plan
    done        nothing more will be measured
    """

    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        placer: SessionPlacer,
        placement: Mapping[str, str],
        plan: PlanType,
        build: Callable[[Mapping[str, str], Measure | None], PlanType],
    ) -> None:
        """`build` makes a plan of a placement, as `plan` is, with kernels that measure if they are given."""
        self.placement = placement
        self.plan = plan
        self.done = False
        self._graph = graph
        self._context = context
        self._placer = placer
        self._build = build
        self._costs = StepCosts()
        self._warm = False
        self._steps = 0
        self._rounds = 0
        self._running = 0
        self._mixed = False
        self._trying = False
        self._settled = placement
        #: {devices of a placement, node by node: seconds of its fastest measured step}
        self._walls: dict[tuple[str, ...], float] = {}
        self._closing = False

    @contextmanager
    def trial(self) -> Iterator[PlanType]:
        """Measure a step, from its start to its end: gives the plan that it runs."""
        plan = self.begin()
        succeeded = False
        started = perf_counter()
        try:
            yield plan
            succeeded = True
        finally:
            self.end(plan, succeeded=succeeded, seconds=perf_counter() - started)

    def begin(self) -> PlanType:
        """Start a step; return its plan."""
        self._running += 1
        self._mixed = self._mixed or self._running > 1
        return self.plan

    def end(self, plan: PlanType, *, succeeded: bool, seconds: float = 0.0) -> None:
        """Record the end of a step of this plan; `plan` may then be another one for the next.

        Concurrent steps cannot be told apart, and of a failed step not all has run: neither counts.
        """
        self._running -= 1
        mixed = self._mixed
        if not self._running:
            self._mixed = False
        if self.done or plan is not self.plan:
            return
        if mixed or not succeeded:
            self._costs.clear()
        elif not self._warm:
            self._warm = True
            self._run(self.placement, measured=True)
        else:
            self._costs.give_to(self._placer.placer.costs, self._graph)
            key = _key(self.placement)
            self._walls[key] = min(seconds, self._walls.get(key, seconds))
            self._steps += 1
            if self._closing:
                if self._steps >= MEASURED_STEPS:
                    self._settle()
            elif self._steps >= MEASURED_STEPS or self._trying:
                self._place_again()

    def _place_again(self) -> None:
        self._rounds += 1
        untried = self._placer.placer.untried(self._graph)
        more = self._rounds < ROUNDS_MAX
        if untried is not None and more and not self._trying:
            trial = self._placer.place(self._graph, self._context, trial=untried).device_of
            if trial != self.placement:
                self._trying = True
                self._run(trial, measured=True)
                return
        found = self._placer.place(self._graph, self._context, present=self._settled)
        self._trying = False
        worth = found.present is None or found.makespan < found.present * (1 - REPLACING_WORTH)
        if worth and found.device_of != self._settled:
            self._settled = found.device_of
            if more:
                self._run(found.device_of, measured=True)
                return
        self._settle()

    def _settle(self) -> None:
        """Measure the remaining placements, then run the fastest from now on."""
        self._closing = True
        together = self._placer.together(self._graph, self._context, self._settled)
        candidates = [self._settled] if together is None else [self._settled, together]
        for placement in candidates:
            if _key(placement) not in self._walls:
                self._run(placement, measured=True)
                return
        if together is not None:
            here, there = self._walls[_key(self._settled)], self._walls[_key(together)]
            if there < here * (1 - TOGETHER_WORTH):
                self._placer.keep_together(self._context)
                self._settled = together
        self._run(self._settled, measured=False)

    def _run(self, placement: Mapping[str, str], *, measured: bool) -> None:
        self._steps = 0
        self.placement = placement
        self.plan = self._build(placement, self._costs.kernels if measured else None)
        self.done = not measured


def _key(placement: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(placement.values())


__all__ = ["MEASURED_STEPS", "Measure", "PlacementMeasurement", "StepCosts"]
