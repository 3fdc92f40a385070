"""Costs of nodes: estimated first, measured from steps that ran, kept with the graph, written as JSON.

    model = CostModel()
    model.record("conv", "/job:localhost/replica:0/task:0/device:CPU:1", 840.0, [401408])
    model.save("costs.json")

A node that was measured on a device has its measured cost there. On another device it costs that times the
ratio of the two speeds, and measurements correct the speeds (`passes.calibrate`): any ops that ran on a slow
device and elsewhere reveal it.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Final

from flowengine.core.errors import DataLossError, InvalidArgumentError
from flowengine.passes.place.calibrate import Calibration, calibrate
from flowengine.passes.place.device_profiles import Offer

#: The latest steps count: enough for a median that the first, slow step does not affect.
SAMPLES_MAX: Final = 5
#: Times below the resolution of a clock say nothing about speed.
_MEANINGFUL_MICROSECONDS: Final = 1.0
#: The version in written files, and the readable one.
FORMAT: Final = "flowengine-costs"
VERSION: Final = 1


@dataclass(slots=True)
class NodeCost:
    """The measured cost of one node.

    samples        {device name: microseconds in a step, all iterations together, of the latest steps}
    output_bytes   of each output, when it was last seen
    iterations     the number of runs in the last step
    """

    samples: dict[str, deque[float]] = field(default_factory=dict)
    output_bytes: tuple[float, ...] = ()
    iterations: float = 1.0

    def on(self, device: str) -> float | None:
        """Return the microseconds in a step on a device where it was measured."""
        samples = self.samples.get(device)
        return median(samples) if samples else None


class CostModel:
    """The measured costs of one graph's nodes, by name. Steps add to it; placement reads it.

    version   grows with every record: a placement from an older version may be worth renewing
    """

    def __init__(self) -> None:
        self.nodes: dict[str, NodeCost] = {}
        self.version = 0

    def __len__(self) -> int:
        return len(self.nodes)

    def record(
        self,
        node: str,
        device: str,
        microseconds: float,
        output_bytes: Sequence[float] = (),
        iterations: float = 1.0,
    ) -> None:
        """Record the cost of a node in one step on one device, all its iterations together."""
        known = self.nodes.setdefault(node, NodeCost())
        known.samples.setdefault(device, deque(maxlen=SAMPLES_MAX)).append(microseconds)
        if output_bytes:
            known.output_bytes = tuple(output_bytes)
        known.iterations = iterations
        self.version += 1

    def calibration(self, offers: Sequence[Offer], estimates: Mapping[str, tuple[str, float]]) -> Calibration:
        """Calibrate devices and ops by the measurements.

        `estimates` is {node name: (op, microseconds in a step at speed 1)}.
        """
        measured: list[tuple[str, str, float, float]] = []
        for name, cost in self.nodes.items():
            known = estimates.get(name)
            if known is None:
                continue
            for device in cost.samples:
                time = cost.on(device)
                if time is not None and time >= _MEANINGFUL_MICROSECONDS and known[1] > 0:
                    measured.append((known[0], device, known[1], time))
        return calibrate(offers, measured)

    def unknown(self, offers: Sequence[Offer], ops: Mapping[str, str]) -> list[int]:
        """Return the devices of unknown speed; none while nothing was measured.

        ops   {node name: its op}

        A device is known if it has run an op that another known one has run, too. The first known one is that
        on which most nodes were measured.
        """
        ran: list[set[str]] = [set() for _ in offers]
        counts = [0] * len(offers)
        positions = {str(offer.name): index for index, offer in enumerate(offers)}
        for name, cost in self.nodes.items():
            for device in cost.samples:
                index = positions.get(device)
                if index is not None and name in ops and (cost.on(device) or 0.0) >= _MEANINGFUL_MICROSECONDS:
                    ran[index].add(ops[name])
                    counts[index] += 1
        if not any(counts):
            return []
        known = {counts.index(max(counts))}
        shared = set(ran[next(iter(known))])
        while True:
            more = {i for i, found in enumerate(ran) if i not in known and found & shared}
            if not more:
                return [i for i in range(len(offers)) if i not in known]
            known |= more
            shared.update(*(ran[i] for i in more))

    def microseconds(self, node: str, offers: Sequence[Offer], speeds: Sequence[float]) -> list[float] | None:
        """Return a measured node's microseconds in a step on each device; None if it was not measured."""
        cost = self.nodes.get(node)
        if cost is None or not cost.samples:
            return None
        measured = [cost.on(str(offer.name)) for offer in offers]
        # Work is time by speed; of several devices where it ran, the mean.
        work = [time * speed for time, speed in zip(measured, speeds, strict=True) if time is not None]
        if not work:
            # Measured on devices that are not offered now: taken at speed 1.
            work = [median(samples) for samples in cost.samples.values() if samples]
        mean = sum(work) / len(work)
        return [mean / speed if time is None else time for time, speed in zip(measured, speeds, strict=True)]

    # -- files --------------------------------------------------------------------------------------

    def to_json(self) -> str:
        """Return the model as text; `from_json` reads it back."""
        nodes = {
            name: {
                "microseconds": {device: list(samples) for device, samples in cost.samples.items()},
                "output_bytes": list(cost.output_bytes),
                "iterations": cost.iterations,
            }
            for name, cost in self.nodes.items()
        }
        return json.dumps({"format": FORMAT, "version": VERSION, "nodes": nodes}, indent=1) + "\n"

    @classmethod
    def from_json(cls, text: str) -> CostModel:
        """Read a model from `to_json`'s text.

        Raises DataLossError for invalid text, InvalidArgumentError for a later version.
        """
        try:
            document = json.loads(text)
        except ValueError as error:
            raise DataLossError(f"measured costs are not JSON: {error}") from None
        if not isinstance(document, dict) or document.get("format") != FORMAT:
            raise DataLossError(f"this JSON holds no measured costs: its 'format' is not {FORMAT!r}")
        if document.get("version") != VERSION:
            raise InvalidArgumentError(
                f"measured costs of version {document.get('version')!r}; this release reads version {VERSION}"
            )
        model = cls()
        try:
            for name, entry in document["nodes"].items():
                model.nodes[name] = _node_cost(entry)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise DataLossError(f"measured costs are damaged: {type(error).__name__}: {error}") from None
        model.version = len(model.nodes)
        return model

    def update(self, other: CostModel) -> None:
        """Merge another model; if both know a node, the other's samples count as later."""
        for name, cost in other.nodes.items():
            for device, samples in cost.samples.items():
                for sample in samples:
                    self.record(name, device, sample, cost.output_bytes, cost.iterations)


def _node_cost(entry: Mapping[str, Any]) -> NodeCost:
    samples = {
        str(device): deque(_numbers(values), maxlen=SAMPLES_MAX)
        for device, values in entry["microseconds"].items()
    }
    return NodeCost(samples, tuple(_numbers(entry["output_bytes"])), float(entry["iterations"]))


def _numbers(values: Iterable[Any]) -> list[float]:
    numbers = [float(value) for value in values]
    if any(not 0.0 <= number < float("inf") for number in numbers):
        raise ValueError("a cost is negative or not a number")
    return numbers
