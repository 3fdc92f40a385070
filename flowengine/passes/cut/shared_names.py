"""A check that a resource which several nodes find by its name is in one memory.

    v1 = VarHandleOp(shared_name="v") on CPU:0, v2 = VarHandleOp(shared_name="v") on GPU:0   ->  an error

Devices that share host memory share their resources; each other device keeps its own. Placement keeps nodes
that share a name together as long as no demand contradicts. If one does, they would have one resource each,
which no user who gives two nodes one name can want: planning the second node reports it.
"""

from __future__ import annotations

from collections.abc import Mapping

from flowengine.core.errors import InvalidArgumentError
from flowengine.devices.device import DeviceSet
from flowengine.ir.graph import Node, NodeGraph
from flowengine.passes.place.colocate import SharedName, shared_name_of

#: Stands for the memory of all devices that share the host's.
_HOST = ""


class SharedNames:
    """The memory of each named resource of a session, as far as its plans tell."""

    def __init__(self) -> None:
        #: {name: (memory, node, its device)}
        self._known: dict[SharedName, tuple[str, Node, str]] = {}

    def check(self, graph: NodeGraph, placement: Mapping[str, str], devices: DeviceSet) -> None:
        """Record the nodes of a placed graph.

        Raises InvalidArgumentError if one shares a resource by name with a node in another memory.
        """
        if all(device.shares_host_memory for device in devices):
            return
        found = dict[SharedName, tuple[str, Node, str]]()
        for node in graph:
            key = shared_name_of(node)
            device = placement.get(node.name)
            if key is None or device is None:
                continue
            memory = _HOST if devices[device].shares_host_memory else device
            first = self._known.get(key) or found.setdefault(key, (memory, node, device))
            if first[0] != memory:
                raise _contradiction(key, first[1], first[2], node, device)
        self._known.update(found)


def _contradiction(key: SharedName, one: Node, there: str, other: Node, here: str) -> InvalidArgumentError:
    name = key.name.decode("utf-8", "replace")
    return InvalidArgumentError(
        f"'{one.name}' ({one.op}) on {there} and '{other.name}' ({other.op}) on {here} share the resource "
        f"'{name}' by its name, but their devices have separate memories, so each would have another "
        "resource. Place both on one device, or give them different shared_names"
    )


__all__ = ["SharedNames"]
