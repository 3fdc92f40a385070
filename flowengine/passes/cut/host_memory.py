"""The memory of each value, in the part of a graph that runs on a device with memory of its own.

Steering values (axes, shapes, sizes, predicates, counters of loops) are needed in host memory, as
TensorFlow's HostMemory arguments are: nothing that depends on them may wait for the device. All other values
are needed in the device's memory. Each kernel declares this for its arguments, and the rest follows:

* A value *can* be computed in host memory if it comes from constants, feeds, received values and shapes by
  arithmetic on whole numbers and truth values alone.
* If such a value is needed in host memory it *is* computed there, with all nodes before it: they get the
attribute
  `_memory` and run by the CPU's kernels. Control flow runs where its value is.
* A value that is needed in the other memory is copied by a node of its own, once. Constants exist in both,
since they
  are copied when the plan is made.

Feeds, sent values and received values are in host memory. Handles and types that the device does not hold are
only there and never copied. Calls of functions take and return values in any memory. Time is linear in nodes
and edges, except for chains of control flow that nothing needs in host memory.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

from flowengine.core.dtypes import DType, bool_, resource
from flowengine.ir import make
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.marks import LEAVES_TASK
from flowengine.ir.names import (
    CONTROL_FLOW_OPS,
    COPY_TO_DEVICE,
    COPY_TO_HOST,
    LOOP_COND,
    MERGE_OPS,
    RECEIVE_OPS,
    SEND_OPS,
    SWITCH_OPS,
)
from flowengine.ir.traits import Constant, HandsOn
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext

#: The attribute that names the memory in which a node works.
MEMORY: Final = "_memory"
HOST_MEMORY: Final = b"host"
DEVICE_MEMORY: Final = b"device"

#: The memory of a value.
_HOST, _DEVICE, _ANY = range(3)
#: The kind of a node: a constant; a node that forwards its input; one with a kernel; a call.
_CONSTANT, _PASSES, _KERNEL, _CALL, _SENT, _RECEIVED = range(6)


def place_memories(
    graph: NodeGraph,
    context: PassContext,
    near: KernelRegistry,
    far: KernelRegistry,
    holds: Callable[[DType], bool],
) -> NodeGraph:
    """Return the graph with copying nodes, and the attribute `_memory` on nodes in an unusual memory.

    near, far   the kernels of the CPU, and of the device
    holds       whether the device's memory can hold a type
    """
    return _Memories(graph, context, near, far, holds).run()


class _Memories:
    """The tables that only exist while memories are assigned."""

    def __init__(
        self,
        graph: NodeGraph,
        context: PassContext,
        near: KernelRegistry,
        far: KernelRegistry,
        holds: Callable[[DType], bool],
    ) -> None:
        self.graph = graph
        self.context = context
        self.feeds = frozenset(context.feeds)
        self.near = near
        self.far = far
        self.holds = holds
        self.kernels: dict[str, Kernel] = {}
        self.kinds = {node.name: self._kind(node) for node in graph}
        #: {node: the slots that its kernel needs in host memory}
        self.host_slots = {node.name: self._host_slots(node) for node in graph}
        #: Nodes whose outputs can be in host memory without anybody waiting for the device.
        self.able: set[str] = set()
        #: Nodes that are in host memory although the device could have them.
        self.near_nodes: set[str] = set()

    def run(self) -> NodeGraph:
        self._find_able()
        self._bring_near()
        self._leave_near()
        return _CopyWriter(self).made()

    # -- facts of a node ----------------------------------------------------------------------------

    def _kind(self, node: Node) -> int:
        if node.has(Constant):
            return _CONSTANT
        if node.op in CONTROL_FLOW_OPS or node.has(HandsOn):
            return _PASSES
        if node.op in SEND_OPS:
            return _SENT
        if node.op in RECEIVE_OPS:
            return _RECEIVED
        kernel = self.far.serving(node)
        if kernel is None:
            return _CALL
        self.kernels[node.name] = kernel
        return _KERNEL

    def _host_slots(self, node: Node) -> frozenset[int]:
        if node.op in SWITCH_OPS:
            return frozenset({1})
        if node.op == LOOP_COND or node.op in SEND_OPS:
            return frozenset({0})
        kernel = self.kernels.get(node.name)
        if kernel is None or not kernel.host or node.op_def is None:
            return frozenset()
        return frozenset(_slots(node.op_def.inputs, node, kernel.host))

    def is_bound(self, dtype: DType) -> bool:
        """Return whether a value of this type is only in host memory."""
        return dtype.base is resource or not self.holds(dtype.base)

    def dtype(self, port: OutputPort) -> DType | None:
        """Return the type of a port; None for a feed whose node is gone."""
        node = self.graph.nodes.get(port.node)
        return None if node is None else node.output_types[port.slot]

    def data(self, node: Node) -> Sequence[OutputPort]:
        """Return the inputs from which a node's output comes."""
        return node.inputs[:1] if node.op in SWITCH_OPS else node.inputs

    # -- values that can be in host memory ----------------------------------------------------------

    def _find_able(self) -> None:
        """Return the largest set of nodes whose outputs can be computed in host memory."""
        consumers: dict[str, list[str]] = {}
        for node in self.graph:
            if self.kinds[node.name] == _PASSES or self._is_plain(node):
                self.able.add(node.name)
                for port in self.data(node):
                    consumers.setdefault(port.node, []).append(node.name)
        waiting = deque(self.able)
        while waiting:
            name = waiting.popleft()
            if name in self.able and not all(map(self.can_be_near, self.data(self.graph[name]))):
                self.able.discard(name)
                waiting.extend(consumers.get(name, ()))

    def _is_plain(self, node: Node) -> bool:
        """Return whether a node is arithmetic on whole numbers and truth values with a kernel of the CPU."""
        if self.kinds[node.name] != _KERNEL or node.is_stateful:
            return False
        types = (*node.input_types(), *node.output_types)
        if not all(dtype.is_integer or dtype is bool_ for dtype in types):
            return False
        kernel = self.near.serving(node)
        return kernel is not None and not kernel.is_async and not kernel.takes_context

    def can_be_near(self, port: OutputPort) -> bool:
        if port in self.feeds:
            return True
        node = self.graph[port.node]
        dtype = node.output_types[port.slot]
        if dtype.is_ref:
            return False
        kind = self.kinds[port.node]
        return (
            kind in (_CONSTANT, _RECEIVED)
            or port.node in self.able
            or self._is_near_by_itself(node, port.slot)
            or self.is_bound(dtype)
        )

    def _is_near_by_itself(self, node: Node, slot: int) -> bool:
        """Return whether this output of a node is in host memory wherever the node runs."""
        if node.op == LOOP_COND:
            return True
        if node.op in MERGE_OPS:
            return slot == 1
        kernel = self.kernels.get(node.name)
        if kernel is None or not kernel.host or node.op_def is None:
            return False
        return slot in _slots(node.op_def.outputs, node, kernel.host)

    # -- values that are in host memory -------------------------------------------------------------

    def _bring_near(self) -> None:
        """Return all nodes before values that are needed in host memory, as far as they can be there."""
        wanted = [node.inputs[slot] for node in self.graph for slot in self.host_slots[node.name]]
        while wanted:
            port = wanted.pop()
            if port in self.feeds or port.node not in self.able or port.node in self.near_nodes:
                continue
            if self._is_near_by_itself(self.graph[port.node], port.slot):
                continue
            self.near_nodes.add(port.node)
            wanted.extend(self.data(self.graph[port.node]))

    def _leave_near(self) -> None:
        """Leave forwarded values where they were computed: a consumer elsewhere copies them then."""
        changed = True
        while changed:
            changed = False
            for node in self.graph:
                if (
                    self.kinds[node.name] == _PASSES
                    and node.name not in self.near_nodes
                    and node.op not in MERGE_OPS
                    and all(map(self._was_computed_near, self.data(node)))
                ):
                    self.near_nodes.add(node.name)
                    changed = True

    def _was_computed_near(self, port: OutputPort) -> bool:
        if port in self.feeds:
            return False
        node = self.graph[port.node]
        return port.node in self.near_nodes or self._is_near_by_itself(node, port.slot)

    def where(self, port: OutputPort) -> int:
        """Return the memory that holds a value, for nodes that are not constants."""
        if port in self.feeds:
            return _HOST
        node = self.graph[port.node]
        kind = self.kinds[port.node]
        if kind == _CALL:
            return _ANY
        if kind == _RECEIVED or self._was_computed_near(port):
            return _HOST
        return _HOST if self.is_bound(node.output_types[port.slot]) else _DEVICE

    def wanted(self, node: Node, slot: int) -> int:
        """Return the memory in which a node wants an input."""
        kind = self.kinds[node.name]
        if kind == _CALL:
            return _ANY
        if slot in self.host_slots[node.name] or node.name in self.near_nodes:
            return _HOST
        return _DEVICE


class _CopyWriter:
    """The new nodes."""

    def __init__(self, memories: _Memories) -> None:
        self.memories = memories
        self.graph = memories.graph
        self.ops = op_registry()
        self.taken = set(self.graph.nodes)
        #: {(port, memory): the port with its value there}
        self.made_ports: dict[tuple[OutputPort, int], OutputPort] = {}
        #: {node: new nodes for its outputs}; "" for those of feeds
        self.behind: dict[str, list[Node]] = {}
        self.sent = self._only_sent()

    def made(self) -> NodeGraph:
        """Return the graph with all values in the memories that need them."""
        memories = self.memories
        changed = [self._rewired(node) for node in self.graph]
        nodes = list(self.behind.get("", ()))
        for node in changed:
            if node.name in memories.near_nodes and memories.kinds[node.name] == _KERNEL:
                node = _in(node, HOST_MEMORY)
            nodes.append(node)
            nodes += self.behind.get(node.name, ())
        return self.graph.rewritten(_marking_task_outputs(tuple(self._without_unused(nodes))))

    def _rewired(self, node: Node) -> Node:
        memories = self.memories
        if not node.inputs:
            return node
        types = node.input_types() if node.op_def is not None else ()
        inputs = list(node.inputs)
        for slot, port in enumerate(node.inputs):
            wanted = memories.wanted(node, slot)
            if wanted == _ANY or (slot < len(types) and types[slot].is_ref):
                continue
            dtype = memories.dtype(port) or (types[slot] if slot < len(types) else None)
            if dtype is not None and not memories.is_bound(dtype):
                inputs[slot] = self._given(node, port, dtype, wanted)
        return node if tuple(inputs) == node.inputs else replace(node, inputs=tuple(inputs))

    def _given(self, node: Node, port: OutputPort, dtype: DType, wanted: int) -> OutputPort:
        """Return the port of a value in the memory where a node wants it, and add a copy if needed."""
        memories = self.memories
        if port not in memories.feeds and memories.kinds[port.node] == _CONSTANT:
            return port if wanted == _HOST else self._constant(port)
        there = memories.where(port)
        if there == wanted or (there == _ANY and wanted == _DEVICE):
            return port
        if dtype.is_ref:
            return self._read(node, port, dtype)
        origin = self._origin(port, there)
        known = self.made_ports.get((origin, wanted))
        if known is None:
            op = COPY_TO_DEVICE if wanted == _DEVICE else COPY_TO_HOST
            name = "" if self._is_counted_already(origin) else str(origin)
            copy = self._copy(op, origin, dtype, name)
            known = self.made_ports[origin, wanted] = OutputPort(copy.name, 0)
        return known

    def _constant(self, port: OutputPort) -> OutputPort:
        """Return a constant that is copied to the device's memory when the plan is made."""
        known = self.made_ports.get((port, _DEVICE))
        if known is None:
            node = self.graph[port.node]
            made = _in(replace(node, name=self._new_name(f"{node.name}/_on_device")), DEVICE_MEMORY)
            self.behind.setdefault(node.name, []).append(made)
            known = self.made_ports[port, _DEVICE] = OutputPort(made.name, 0)
        return known

    def _read(self, node: Node, port: OutputPort, dtype: DType) -> OutputPort:
        """Return a copy of a reference's value, for one node, with the same control inputs."""
        guards = dict.fromkeys(node.control_inputs)
        if node.op not in MERGE_OPS:
            others = (p.node for p in node.inputs if p != port and p not in self.memories.feeds)
            guards |= dict.fromkeys(others)
        copy = self._copy(COPY_TO_HOST, port, dtype.base, str(port), tuple(guards), before=node.name)
        return OutputPort(copy.name, 0)

    def _copy(
        self,
        op: str,
        port: OutputPort,
        dtype: DType,
        name: str,
        controls: Sequence[str] = (),
        before: str = "",
    ) -> Node:
        way = "to_device" if op == COPY_TO_DEVICE else "to_host"
        node = make.node(
            self.ops,
            op,
            self._new_name(f"{port.node}/_{way}_{port.slot}"),
            inputs=(port,),
            controls=controls,
            T=dtype.base,
            tensor_name=name.encode("utf-8", "surrogateescape"),
        )
        home = "" if port in self.memories.feeds else before or port.node
        self.behind.setdefault(home, []).append(node)
        return node

    def _origin(self, port: OutputPort, there: int) -> OutputPort:
        """Follow a value back through nodes that only forward it, within its memory."""
        memories = self.memories
        while port not in memories.feeds:
            node = self.graph[port.node]
            if not node.has(HandsOn) or node.control_inputs or memories.where(node.inputs[0]) != there:
                break
            port = node.inputs[0]
        return port

    def _only_sent(self) -> set[OutputPort]:
        """Return the ports that only Sends need in host memory; the Sends are counted themselves."""
        kinds = self.memories.kinds
        sent, others = set[OutputPort](), set[OutputPort]()
        for node in self.graph:
            for slot, port in enumerate(node.inputs):
                if kinds[node.name] == _SENT:
                    sent.add(port)
                elif self.memories.wanted(node, slot) == _HOST:
                    others.add(port)
        return sent - others

    def _is_counted_already(self, port: OutputPort) -> bool:
        if port in self.memories.feeds:
            return False
        return port in self.sent or self.memories.kinds[port.node] == _RECEIVED

    def _without_unused(self, nodes: list[Node]) -> Iterable[Node]:
        """Return the nodes without constants that nobody uses in their original memory."""
        request = self.memories.context
        used = {port.node for port in request.fetches} | set(request.targets)
        for node in nodes:
            used.update(port.node for port in node.inputs)
            used.update(node.control_inputs)
        return (n for n in nodes if n.name in used or self.memories.kinds.get(n.name) != _CONSTANT)

    def _new_name(self, stem: str) -> str:
        name, number = stem, 1
        while name in self.taken:
            number += 1
            name = f"{stem}_{number}"
        self.taken.add(name)
        return name


def _in(node: Node, memory: bytes) -> Node:
    return replace(node, attrs={**node.attrs, MEMORY: memory})


def _marking_task_outputs(nodes: Sequence[Node]) -> Iterable[Node]:
    """Return the nodes; copies to the host that only Sends to other tasks take get the attribute for it."""
    stays, leaves = set[str](), set[str]()
    for node in nodes:
        names = {port.node for port in node.inputs}
        (leaves if node.op in SEND_OPS and _is_to_other_task(node) else stays).update(names)
    for node in nodes:
        if node.op == COPY_TO_HOST and node.name in leaves and node.name not in stays:
            yield replace(node, attrs={**node.attrs, LEAVES_TASK: True})
        else:
            yield node


def _is_to_other_task(send: Node) -> bool:
    here, there = (send.attrs[name].rpartition(b"/device:")[0] for name in ("send_device", "recv_device"))
    return bool(here != there)


def _slots(args: Iterable[Any], node: Node, names: frozenset[str]) -> list[int]:
    """Return the slots of the arguments with these names."""
    found: list[int] = []
    slot = 0
    for arg in args:
        count = len(arg.types(node.attrs))
        if arg.name in names:
            found += range(slot, slot + count)
        slot += count
    return found


__all__ = ["DEVICE_MEMORY", "HOST_MEMORY", "MEMORY", "place_memories"]
