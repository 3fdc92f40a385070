"""Partition: one graph for each device, joined by Send and Recv (white paper 3.2.2, DESIGN 5).

    a on D1 -> b on D2  ->  D1: a -> Send     D2: Recv -> b

One Send and one Recv for each (tensor, destination device), whatever the number of consumers; a tensor has
one frame, so its frame need not be part of the key. All control edges of a node into one device become one
Send of an empty tensor that waits for the node, and one Recv that owns the edges; if an output of the node
crosses already, its Recv owns them. Send and Recv run dead or live and carry the dead bit, which also leaves
a Recv by its control edges.

Nodes that are cheaper to copy than to send are made on each device that needs them: small constants, and the
Enters and NextIterations of a loop. So a loop's invariant crosses once and not once an iteration, and every
tensor that crosses inside a frame does so in all iterations. Frames that are split get a control loop on each
of their devices (`control_loops.py`).

A reference never crosses. If a value is read through one for a consumer elsewhere, the read waits for the
inputs of the consumer. Every partition that uses a feed gets it. Time is linear in nodes, edges and crossing
tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import DType, float32, resource
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import DeviceName
from flowengine.ir import make
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.frames import FramePath, assign_frames, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import (
    CONTROL_FLOW_OPS,
    ENTER_OPS,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    REFERENCE_CARRIERS,
)
from flowengine.ir.traits import Constant
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.passes.cut.control_loops import ControlLoops, gather_unusual_frames

#: Constants up to this many bytes are made on every device that needs them.
COPIED_BYTES_MAX: Final = 64 * 1024
#: Enter and NextIteration are made where their value is needed.
_MOVED: Final = (ENTER_OPS | NEXT_ITERATION_OPS) - REFERENCE_CARRIERS
_EMPTY: Final = TensorAttr.of(np.zeros(0, np.float32), float32)


@dataclass(frozen=True, slots=True)
class Transfer:
    """One tensor, or the control edges of one node, from one device to another.

    edge    its name at the rendezvous: "node:slot", "^node"
    port    the tensor that is sent
    frame   the frame that it is sent in
    send, receive    names of the two nodes
    is_compressed    whether it goes at half the size, with less precision
    """

    edge: str
    port: OutputPort
    dtype: DType
    source: str
    target: str
    frame: FramePath
    send: str
    receive: str
    is_compressed: bool = False


@dataclass(frozen=True, slots=True)
class Partition:
    """The nodes that one device runs.

    feeds     positions, among the request's feeds, of those that this device uses
    fetches   positions, among the request's fetches, of those that it returns
    targets   the request's targets that it runs
    """

    device: str
    graph: NodeGraph
    feeds: tuple[int, ...]
    fetches: tuple[int, ...]
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PartitionedGraph:
    """A graph cut into partitions, one for each device that has nodes of it, and the crossing tensors."""

    partitions: tuple[Partition, ...]
    transfers: tuple[Transfer, ...]


def partition(
    graph: NodeGraph,
    context: PassContext,
    placement: Mapping[str, str],
    incarnations: Mapping[str, int],
) -> PartitionedGraph:
    """Cut a pruned graph by the device of each node.

    placement      {node: complete device name}, of every node
    incarnations   {device: number of its incarnation}; the first returns feeds that are fetched

    Raises InvalidArgumentError for a reference or resource that would have to cross, naming both nodes, and
    for a node without a device.
    """
    return GraphPartitioner(graph, context, placement, incarnations).run()


class GraphPartitioner:
    """The tables that only exist while a graph is cut."""

    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        placement: Mapping[str, str],
        incarnations: Mapping[str, int],
    ) -> None:
        self.graph = graph
        self.context = context
        self.incarnations = incarnations
        self.feeds = {port: index for index, port in enumerate(context.feeds)}
        #: The frame of each node, also of new ones.
        self.frames = assign_frames(graph, self.feeds)
        self.order = {name: index for index, name in enumerate(graph.nodes)}
        self.device_of = {node.name: self._device(node, placement) for node in graph}
        gather_unusual_frames(graph, self.frames, self.device_of)
        #: {device: {name: (place in the order of nodes, node)}}
        self.parts: dict[str, dict[str, tuple[tuple[int, int], Node]]] = {}
        self._fed: dict[str, set[int]] = {}
        self._transfers: list[Transfer] = []
        #: {(tensor or node, device): the node or port that provides it there}
        self._received: dict[tuple[OutputPort | str, str], OutputPort] = {}
        #: {(a node that is copied, device): its name there}
        self._copies: dict[tuple[str, str], str] = {}
        self._taken = set(graph.nodes)
        self._suffixes = _suffixes(incarnations)
        #: The definitions of the new nodes.
        self.ops = op_registry()
        self._loops = ControlLoops(self)

    def _device(self, node: Node, placement: Mapping[str, str]) -> str:
        device = placement.get(node.name)
        if device is None or device not in self.incarnations:
            raise InvalidArgumentError(
                f"'{node.name}' ({node.op}) was placed on {device!r}, which is not one of the devices: "
                + ", ".join(self.incarnations)
            )
        return device

    def run(self) -> PartitionedGraph:
        request = self.context
        wanted = {port.node for port in request.fetches} | set(request.targets)
        for node in self.graph:
            if not _is_moved(node) or node.name in wanted:
                self.add(node, self.device_of[node.name], (self.order[node.name], 0))
        self._loops.build()
        fetches: dict[str, list[int]] = {}
        for index, port in enumerate(request.fetches):
            device = self.device_of.get(port.node, next(iter(self.incarnations)))
            fetches.setdefault(device, []).append(index)
            if port in self.feeds:
                self._fed.setdefault(device, set()).add(self.feeds[port])
        partitions = []
        for device in self.incarnations:
            placed = self.parts.get(device, {})
            if not placed and device not in fetches:
                continue
            nodes = [node for _, node in sorted(placed.values(), key=lambda entry: entry[0])]
            partitions.append(
                Partition(
                    device,
                    self.graph.rewritten(nodes),
                    tuple(sorted(self._fed.get(device, ()))),
                    tuple(fetches.get(device, ())),
                    tuple(name for name in request.targets if self.device_of[name] == device),
                )
            )
        return PartitionedGraph(tuple(partitions), tuple(self._transfers))

    # -- nodes --------------------------------------------------------------------------------------

    def add(self, node: Node, device: str, place: tuple[int, int]) -> None:
        """Add a node of the graph to its device's part, with inputs from there."""
        part = self.parts.setdefault(device, {})
        if node.name in part:
            return
        part[node.name] = (place, node)  # before its inputs: a loop comes back to it
        inputs = tuple([self._input(node, slot, port, device) for slot, port in enumerate(node.inputs)])
        controls = node.control_inputs
        if controls:
            here = [self._control(name, device) for name in controls]
            controls = tuple(dict.fromkeys(name for name in here if name is not None))
        if inputs != node.inputs or controls != node.control_inputs:
            part[node.name] = (place, replace(node, inputs=inputs, control_inputs=controls))

    def put(self, node: Node, device: str, place: tuple[int, int], frame: FramePath) -> Node:
        """Add a new node to a device's part, unchanged."""
        self.parts.setdefault(device, {})[node.name] = (place, node)
        self.frames[node.name] = frame
        return node

    def port_on(self, port: OutputPort, device: str) -> OutputPort:
        """Return the port that provides a tensor of the graph on a device."""
        home = self.device_of[port.node]
        return port if home == device else self._receive(port, self._dtype(port), home, device)

    def _input(self, node: Node, slot: int, port: OutputPort, device: str) -> OutputPort:
        """Return the port that provides an input of a node on the node's device."""
        feed = self.feeds.get(port)
        if feed is not None:
            self._fed.setdefault(device, set()).add(feed)
            return port
        source = self.graph[port.node]
        if _is_moved(source):
            return OutputPort(self._copy(source, device), port.slot)
        home = self.device_of[port.node]
        if home == device:
            return port
        dtype = self._dtype(port)
        wants_reference = node.op_def is not None and node.input_types()[slot].is_ref
        if wants_reference or dtype.base is resource:
            what = "a reference" if wants_reference else "a resource"
            raise InvalidArgumentError(
                f"'{node.name}' ({node.op}) on {device} takes {what} from '{source.name}' ({source.op}) on "
                f"{home}: both must be on one device; ask for the same one, or colocate them with _class"
            )
        if dtype.is_ref:
            port = self._read(node, slot, port, home)
        return self._receive(port, dtype.base, home, device)

    def _control(self, name: str, device: str) -> str | None:
        """Return the node that replaces a control input on a device; None if that has always run."""
        source = self.graph[name]
        if _is_moved(source):
            return None if source.has(Constant) else self._copy(source, device)
        return name if self.device_of[name] == device else self._receive_control(source, device)

    def _copy(self, node: Node, device: str) -> str:
        """Return a copy of a Const, Enter or NextIteration for a device that needs it."""
        if self.device_of[node.name] == device:
            self.add(node, device, (self.order[node.name], 0))
            return node.name
        name = self._copies.get((node.name, device))
        if name is None:
            name = self._copies[node.name, device] = self.new_name(f"{node.name}/_at", device)
            if node.name in self.frames:
                self.frames[name] = self.frames[node.name]
            self.add(replace(node, name=name), device, (self.order[node.name], 0))
        return name

    def _dtype(self, port: OutputPort) -> DType:
        node = self.graph[port.node]
        if node.op_def is None:
            error = NotFoundError(f"Op type not registered '{node.op}'")
            error.missing_op = node.op
            raise error.locate(node_name=node.name, op_type=node.op)
        return node.output_types[port.slot]

    # -- crossing tensors ---------------------------------------------------------------------------

    def _receive(self, port: OutputPort, dtype: DType, home: str, device: str) -> OutputPort:
        """Return a tensor on another device: its Recv there, made with its Send on first use."""
        found = self._received.get((port, device))
        if found is None:
            recv = self.new_name(f"{port.node}/_recv_{port.slot}", device)
            found = self._received[port, device] = OutputPort(recv, 0)
            self._transfer(str(port), port, dtype, home, device, recv)
        return found

    def _receive_control(self, node: Node, device: str) -> str:
        """Return the node that owns the control edges of a node on another device."""
        found = self._received.get((node.name, device)) or self._received_output(node, device)
        if found is None:
            home = self.device_of[node.name]
            frame = self._delivered(node.name)
            place = (self.order[node.name], 1)
            name = self.new_name(f"{node.name}/_done", device)
            done = make.const(self.ops, name, _EMPTY, controls=(node.name,))
            self.order[done.name] = place[0]
            self.put(done, home, place, frame)
            recv = self.new_name(f"{node.name}/_recv_done", device)
            found = self._received[node.name, device] = OutputPort(recv, 0)
            self._transfer(f"^{node.name}", OutputPort(done.name, 0), float32, home, device, recv)
        return found.node

    def _received_output(self, node: Node, device: str) -> OutputPort | None:
        """Return an output that crosses to another device anyway: its arrival shows that its node has run."""
        if node.op in CONTROL_FLOW_OPS:
            return None  # one output may be dead although the node is not
        ports = (OutputPort(node.name, slot) for slot in range(len(node.output_types)))
        return next(filter(None, (self._received.get((port, device)) for port in ports)), None)

    def _transfer(self, edge: str, port: OutputPort, dtype: DType, home: str, device: str, recv: str) -> None:
        """Make the two nodes of one transfer."""
        frame = self._delivered(port.node)
        place = (self.order[port.node], 1)
        attrs: dict[str, Any] = {
            "tensor_name": edge.encode("utf-8", "surrogateescape"),
            "send_device": home.encode(),
            "send_device_incarnation": self.incarnations[home],
            "recv_device": device.encode(),
        }
        send = self.new_name(f"{port.node}/_send_{port.slot}", device)
        self._transfers.append(Transfer(edge, port, dtype, home, device, frame, send, recv))
        self.put(make.send(self.ops, send, port, dtype, **attrs), home, place, frame)
        anchor = (self._loops.anchor(frame, device),) if frame else ()
        self.put(make.receive(self.ops, recv, dtype, controls=anchor, **attrs), device, place, frame)

    def _read(self, node: Node, slot: int, port: OutputPort, home: str) -> OutputPort:
        """Return a read of a reference on its own device, for a consumer elsewhere.

        A reference is followed when its consumer runs, so the read waits for the inputs of the consumer.
        """
        guards = dict.fromkeys(node.control_inputs)
        if node.op not in MERGE_OPS:
            guards |= dict.fromkeys(p.node for p in node.inputs if p != port and p not in self.feeds)
        name = self.new_name(f"{node.name}/_read_{slot}", home)
        place = self.order[name] = self.order.get(node.name, len(self.order))
        dtype = self.graph[port.node].output_types[port.slot].base
        self.frames[name] = self.frames.get(node.name, ())
        read = make.identity(self.ops, name, port, dtype, controls=tuple(guards))
        self.add(read, home, (place, 0))
        return OutputPort(name, 0)

    def _delivered(self, name: str) -> FramePath:
        node = self.graph.nodes.get(name)
        frame = self.frames.get(name, ())
        return frame if node is None else output_frame(node, frame)

    def new_name(self, stem: str, device: str) -> str:
        """Return a unique name, made from a purpose and a device."""
        name = candidate = f"{stem}_{self._suffixes[device]}"
        number = 1
        while name in self._taken:
            number += 1
            name = f"{candidate}_{number}"
        self._taken.add(name)
        return name


def _is_moved(node: Node) -> bool:
    """Return whether a node is copied wherever its value is needed, rather than sent there."""
    return node.op in _MOVED or is_copied(node)


def is_copied(node: Node) -> bool:
    """Return whether it is a constant that is made anew on each device that needs it."""
    constant = node.trait(Constant)
    if constant is None or node.control_inputs:
        return False
    value: TensorAttr = node.attrs[constant.value]
    elements = value.shape.num_elements()
    return elements is not None and elements * (value.dtype.size or 16) <= COPIED_BYTES_MAX


def _suffixes(devices: Iterable[str]) -> dict[str, str]:
    """Return {device: its name in names of nodes}: type and index, and the task if there are several."""
    names = {device: DeviceName.parse(device) for device in devices}
    tasks = {(name.job, name.replica, name.task) for name in names.values()}
    suffixes = {}
    for device, name in names.items():
        suffix = f"{name.type}_{name.index}".lower()
        suffixes[device] = suffix if len(tasks) < 2 else f"{name.job}_{name.replica}_{name.task}_{suffix}"
    return suffixes


__all__ = ["GraphPartitioner", "Partition", "PartitionedGraph", "Transfer", "is_copied", "partition"]
