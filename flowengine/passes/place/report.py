"""A placement as text: the result of `Session.explain(placement=True)`."""

from __future__ import annotations

from flowengine.ir.graph import NodeGraph
from flowengine.passes.place.place import Placement
from flowengine.passes.place.reasons import microseconds


def report(graph: NodeGraph, placement: Placement) -> str:
    """List each device's nodes in construction order, each with the reason; then the step's estimated time.

    /job:localhost/replica:0/task:0/device:CPU:1
      w (VariableV2): asked for /device:CPU:1
      step (MatMul): ends first there, at 1.2 ms (CPU:0: 1.4 ms)
    """
    by_device: dict[str, list[str]] = {}
    for node in graph:
        line = f"  {node.name} ({node.op}): {placement.reasons[node.name]}"
        by_device.setdefault(placement.device_of[node.name], []).append(line)
    parts = ["\n".join([device, *by_device[device]]) for device in sorted(by_device)]
    expected = f"expected: {microseconds(placement.makespan)}"
    others = [
        f"{microseconds(time)} with everything on one device"
        if name == "one device"
        else f"{microseconds(time)} with nodes on the devices in turn"
        for name, time in placement.baselines.items()
    ]
    return "\n\n".join([*parts, "; ".join([expected, *others])])
