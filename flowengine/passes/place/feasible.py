"""The possible devices of each node: kernels, the user's constraint, and the colocated nodes.

A device has a kernel of a node if there is one for its type, or for any, that takes the node's types, and if
its memory can hold the kernel's values there.

Sets of devices are bit masks, bit i for device i. A demand that no device meets is an error that names the
nodes and their demands; with soft placement it is relaxed instead: first the index of the device, then its
type, then job and task.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.names import DeviceName
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.names import ARGUMENT, CONTROL_FLOW_OPS, CONTROL_TRIGGER, RESULT
from flowengine.ir.traits import Constant, HandsOn, Orders
from flowengine.kernels.registry import Holds, KernelRegistry
from flowengine.passes.place.colocate import Groups, absent_anchors, follow_preferences
from flowengine.passes.place.device_profiles import DeviceKind, Offer
from flowengine.passes.place.refusals import PlacementClaim, refusal
from flowengine.passes.place.resource_devices import followed, overruled

logger: Final = logging.getLogger("flowengine.placement")

#: Ops that the runtime runs itself, on any device, without a kernel.
_ANYWHERE: Final = CONTROL_FLOW_OPS | {CONTROL_TRIGGER, ARGUMENT, RESULT}
_WITHOUT_KERNEL: Final = frozenset({HandsOn, Constant, Orders})


class Feasible:
    """The possible devices of every group, for one graph and one set of devices.

    masks        {representative of a group: bit mask}
    relaxed      {node name: the reason why its demand is not met}, under soft placement
    overruled    {node name: its demand}, of nodes that go with their resource instead
    impossible   representatives of the groups that no device can take, if that is not an error (`lenient`)
    """

    def __init__(
        self,
        graph: NodeGraph,
        groups: Groups,
        offers: Sequence[Offer],
        kernels: KernelRegistry,
        *,
        demands: Mapping[str, DeviceName] | None = None,
        pinned: Mapping[str, str] | None = None,
        soft: bool = False,
        lenient: bool = False,
    ) -> None:
        if not offers:
            raise InvalidArgumentError("there is no device to place nodes on")
        self.graph = graph
        self.groups = groups
        self.offers = offers
        self.kernels = kernels
        self.soft = soft
        #: {node name: its constraint}, of nodes that have one, also of anchors that passes removed.
        self.demands: Mapping[str, DeviceName] = requested(graph) if demands is None else demands
        self.overruled = overruled(groups, self.demands)
        if self.overruled:
            self.demands = followed(self.demands, self.overruled)
        self.lenient = lenient
        self.relaxed: dict[str, str] = {}
        self.impossible: set[int] = set()
        self.masks: dict[int, int] = {}
        self._everywhere = (1 << len(offers)) - 1
        #: {kind of device: mask of the devices}
        self._by_kind: dict[DeviceKind, int] = {}
        for i, offer in enumerate(offers):
            self._by_kind[offer.kind] = self._by_kind.get(offer.kind, 0) | 1 << i
        self._cpus = sum(1 << i for i, offer in enumerate(offers) if offer.type == "CPU")
        #: {(op, its types if they matter): mask}
        self._by_op: dict[tuple[object, ...], int] = {}
        self._by_demand: dict[DeviceName, int] = {}
        #: {node index: mask of the device types with a kernel}, if not all have one
        self._kernel_masks: dict[int, int] = {}
        self._collect()
        self._pin(pinned or {})
        follow_preferences(groups, self.masks)

    def why_not(self, index: int) -> str:
        """Return why a node cannot be on certain kinds of devices; empty if no type is the cause."""
        mask = self._kernel_masks.get(index, self._everywhere)
        node = self.graph.nodes[self.groups.names[index]]
        reasons = [self._refused(node, kind) for kind, bits in self._by_kind.items() if not bits & mask]
        return "; ".join(dict.fromkeys(filter(None, reasons)))

    def allowed(self, index: int) -> int:
        """Return the mask of the group that a node belongs to."""
        return self.masks[self.groups.find(index)]

    # -- masks --------------------------------------------------------------------------------------

    def _collect(self) -> None:
        groups, masks = self.groups, self.masks
        constrained: dict[int, list[str]] = {}
        for index, node in enumerate(self.graph):
            representative = groups.find(index)
            mask = self._with_kernel(node)
            if mask != self._everywhere:
                self._kernel_masks[index] = mask
            masks[representative] = masks.get(representative, self._everywhere) & mask
            if node.name in self.demands:
                constrained.setdefault(representative, []).append(node.name)
        for representative, name in absent_anchors(groups):
            if name in self.demands:
                constrained.setdefault(representative, []).append(name)
        for representative, mask in masks.items():
            if not mask:
                # From kernels alone: no device type has all of them, and relaxing demands does not help.
                self._refuse(representative, constrained.pop(representative, ()))
        for representative, names in constrained.items():
            self._constrain(representative, names)

    def _pin(self, pinned: Mapping[str, str]) -> None:
        """Keep groups with their state, if their present nodes and demands still allow it.

        If an extended graph joins groups with different homes, the first home counts.
        """
        bits = {str(offer.name): 1 << index for index, offer in enumerate(self.offers)}
        for name, place in pinned.items():
            index = self.groups.index.get(name)
            if index is None or place not in bits:
                continue
            representative = self.groups.find(index)
            mask = self.masks[representative] & bits[place]
            if mask:
                self.masks[representative] = mask
            else:
                logger.info("'%s' had its state on %s, where it can no longer be", name, place)

    def _with_kernel(self, node: Node) -> int:
        op_def = node.op_def
        # A placeholder that runs fails, wherever that is.
        if op_def is None or node.op in _ANYWHERE or node.is_placeholder:
            return self._everywhere
        if not _WITHOUT_KERNEL.isdisjoint(op_def.traits):
            return self._everywhere
        key = (node.op,) if len(self._by_kind) == 1 else (node.op, *_types_of(node))
        known = self._by_op.get(key)
        if known is not None:
            return known
        mask, depends = 0, False
        for kind, bits in self._by_kind.items():
            depends = depends or any(k.supports for k in self.kernels.candidates(node.op, kind.type))
            if self.kernels.serving(node, kind.type, _asked(kind)) is not None:
                mask |= bits
        if not mask:
            # No device has a kernel: a function call, or a node that the plan will name.
            mask = self._cpus or self._everywhere
        if not depends or len(self._by_kind) == 1:
            self._by_op[key] = mask
        return mask

    def _refused(self, node: Node, kind: DeviceKind) -> str:
        """Explain why no kernel of a kind of device takes this node; empty if the op has none there."""
        tried = [k for k in self.kernels.candidates(node.op, kind.type) if k.maker is None]
        serving = [kernel for kernel in tried if kernel.serves(node)]
        for kernel in serving:
            dtype = kernel.not_held(node, kind.holds)
            if dtype is not None:
                return f"{kind.type} holds no {dtype.name}"
        if serving or not tried:
            return ""
        taken: dict[str, set[str]] = {}
        for kernel in tried:
            for attr, dtypes in (kernel.types or {}).items():
                taken.setdefault(attr, set()).update(dtype.name for dtype in dtypes)
        told = ", ".join(f"{attr} in {{{', '.join(sorted(names))}}}" for attr, names in taken.items())
        return f"on {kind.type} it takes {told or 'other attributes'}"

    def _matching(self, demand: DeviceName) -> int:
        mask = self._by_demand.get(demand)
        if mask is None:
            mask = sum(1 << i for i, offer in enumerate(self.offers) if demand.matches(offer.name))
            self._by_demand[demand] = mask
        return mask

    def _constrain(self, representative: int, names: Iterable[str]) -> None:
        """Intersect a group's devices with the demands of its nodes."""
        for name in names:
            demand = self.demands[name]
            mask = self.masks[representative] & self._matching(demand)
            if not mask:
                if not self.soft:
                    self._refuse(representative, names)
                    return
                mask, why = self._relax(representative, name, demand)
                self.relaxed[name] = why
            self.masks[representative] = mask

    def _relax(self, representative: int, name: str, demand: DeviceName) -> tuple[int, str]:
        """Return the devices that come nearest to the demand of a node, and the part that was given up."""
        possible = self.masks[representative]
        why = self._refusal(name, self._matching(demand))
        for nearer in (
            replace(demand, index=None),
            replace(demand, index=None, type=None),
            DeviceName(type=demand.type),
        ):
            mask = possible & self._matching(nearer)
            if mask:
                return mask, why
        return possible, why

    def _refusal(self, name: str, wanted: int) -> str:
        """Return why a node cannot be on one of the devices that it asks for."""
        if not wanted:
            return "no such device"
        index = self.groups.index.get(name)
        if index is None or self._kernel_masks.get(index, wanted) & wanted:
            return "not possible for what is placed with it"
        return self.why_not(index) or "it has no kernel there"

    def _refuse(self, representative: int, names: Iterable[str]) -> None:
        """Raise, or record the group and allow it anywhere."""
        if not self.lenient:
            raise self._impossible(representative, names)
        self.impossible.add(representative)
        self.masks[representative] = self._everywhere

    # -- errors -------------------------------------------------------------------------------------

    def _impossible(self, representative: int, names: Iterable[str]) -> OpError:
        members = [i for i in range(len(self.groups.names)) if self.groups.find(i) == representative]
        claims = [
            PlacementClaim(
                name, f"'{name}' asks for {self.demands[name]}", self._matching(self.demands[name])
            )
            for name in names
        ]
        nodes = list(self.graph)
        for index in members:
            mask = self._kernel_masks.get(index)
            if mask is not None:
                kinds = sorted({kind.type for kind, bits in self._by_kind.items() if bits & mask})
                node, why = nodes[index], self.why_not(index)
                text = f"'{node.name}' ({node.op}) has a kernel for {' or '.join(kinds) or 'no device'} only"
                claims.append(PlacementClaim(node.name, f"{text} ({why})" if why else text, mask))
        name, text = refusal(self.groups, representative, [self.groups.names[i] for i in members], claims)
        offered = ", ".join(str(offer.name) for offer in self.offers)
        error = InvalidArgumentError(
            f"{text}. Devices: {offered}. Change a demand, or allow soft placement "
            "(Config(allow_soft_placement=True))."
        )
        node = self.graph[name] if name in self.graph.nodes else nodes[members[0]]
        return error.locate(
            node_name=node.name,
            op_type=node.op,
            device=node.device,
            creation_site=node.creation_site or None,
        )


def _types_of(node: Node) -> Iterator[object]:
    """Return the attributes of a node that are types, or lists of them, with their names."""
    for name, value in node.attrs.items():
        if isinstance(value, DType) or (
            isinstance(value, tuple) and value and all(isinstance(each, DType) for each in value)
        ):
            yield name, value


def _asked(kind: DeviceKind) -> Holds | None:
    """Return the type check of kernels for a kind of device; None if the device holds every type."""
    return None if kind.holds_all else kind.holds


def requested(nodes: Iterable[Node]) -> dict[str, DeviceName]:
    """Return {node name: its constraint}, of the nodes whose requested device is not empty.

    Raises InvalidArgumentError that names the node whose device is invalid.
    """
    parsed: dict[str, DeviceName] = {"": DeviceName()}
    found: dict[str, DeviceName] = {}
    for node in nodes:
        if not node.device:
            continue
        name = parsed.get(node.device)
        if name is None:
            try:
                name = DeviceName.parse(node.device)
            except OpError as error:
                raise error.locate(node_name=node.name, op_type=node.op) from None
            parsed[node.device] = name
        if name != DeviceName():
            found[node.name] = name
    return found
