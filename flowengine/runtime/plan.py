"""Plan: what a step needs and nothing else. Made once for (graph version, feeds, fetches, targets).

`make_plan` turns a pruned graph into items with bound kernels, counts of inputs, consumers and static
frames. Values known beforehand (a Const of the root frame) are written into the templates that every
step copies, so they cost nothing at run time. Time and memory are linear in nodes and edges.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import numpy as np

from flowengine.core.arrays import DEAD, to_array
from flowengine.core.dtypes import DType, resource, string, variant
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError
from flowengine.ir.frames import (
    ENTER_OPS,
    EXIT_OPS,
    MERGE_OPS,
    NEXT_ITERATION_OPS,
    SWITCH_OPS,
    FramePath,
    assign_frames,
    describe_frame,
    output_frame,
)
from flowengine.ir.graph import Graph, Node, OutputPort
from flowengine.ir.opdef import OpDef
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.codegen import compile_region
from flowengine.passes.program import Program
from flowengine.runtime.bodies import OneRegion
from flowengine.runtime.handles import Handles
from flowengine.runtime.items import KIND_NAMES, Edge, Item, Kind, MergeEdge, StaticFrame

#: Inputs up to this many bytes are computed inline: NumPy needs about 0.1 ms for as much.
INLINE_BYTES: Final = 256 * 1024
#: A kernel that estimates its own cost is asked above this; 64x64 products take 5 us.
ESTIMATE_BYTES: Final = 16 * 1024
#: More bytes than any input has: always inline.
_ALWAYS_INLINE: Final = 1 << 62
#: A count that a fetch's place among the entries never reaches: it is no item and never runs.
_NEVER: Final = 1 << 40

#: Ops whose kernels spend their time in BLAS.
_PRODUCTS: Final = frozenset(
    {
        "MatMul",
        "BatchMatMul",
        "BatchMatMulV2",
        "Conv2D",
        "Conv2DBackpropInput",
        "Conv2DBackpropFilter",
        "Conv3D",
        "_FusedContraction",
        "_FusedSequence",
    }
)
_SEND_OPS: Final = frozenset({"_Send", "_HostSend"})
_RECEIVE_OPS: Final = frozenset({"_Recv", "_HostRecv"})
_FORWARDING: Final = frozenset({"Identity", "StopGradient", "PreventGradient", "LoopCond", "RefIdentity"})


class Functions(Protocol):
    """What makes function calls; see `runtime.functions`, which makes plans in its turn."""

    def calls(self, node: Node) -> bool: ...

    def bind(self, node: Node, kernels: KernelRegistry) -> Any: ...


@dataclass(slots=True)
class Plan:
    """Immutable but for what its items learn; shared by all steps that run it, at the same time too.

    root         the static root frame, with templates
    items        every item, in construction order
    sources      the items that are ready at once
    feeds        for each fed port in order: its plain edges and its edges to Merges
    constants    the same for the Consts that feed Merges, with their values
    fetches      for each fetch in order: where its value lies among the root's entries, and the port
    feed_fetches {position among the fetches: position among the feeds} of what is fed and fetched
    """

    root: StaticFrame
    items: list[Item]
    sources: list[Item]
    feeds: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...]]]
    constants: list[tuple[tuple[Edge, ...], tuple[MergeEdge, ...], Any]]
    fetches: list[tuple[int, int, OutputPort]]
    graph: Graph
    frames: dict[FramePath, StaticFrame] = field(default_factory=dict)
    #: How often a region without a loop took longer than a slice: it should have been smaller.
    slow_regions: int = 0
    #: How often one iteration of a region's loop held the host for long: it has a node worth a thread.
    slow_iterations: int = 0
    #: What `graph` was before its nodes were fused, where they were.
    unfused: Graph | None = None
    handles: Handles = field(init=False)
    #: The plan as a function of its feeds, if it is one region.
    one_region: OneRegion | None = field(init=False)

    def __post_init__(self) -> None:
        self.handles = Handles(self.sources)
        self.one_region = OneRegion.of(self)


def make_plan(
    graph: Graph,
    *,
    feeds: Sequence[OutputPort] = (),
    fetches: Sequence[OutputPort] = (),
    registry: KernelRegistry,
    functions: Functions | None = None,
    names: Sequence[OutputPort] | None = None,
    xp: Any = np,
    device_type: str = "CPU",
) -> Plan:
    """A plan for one device. `graph` is pruned: every node of it runs.

    `names` are what errors call the fetches, where passes have moved them.

    Raises InvalidArgumentError for a feed or fetch inside a loop, NotFoundError with `missing_op` for an
    op that is unknown or has no kernel, each naming the node.
    """
    plan = _Planner(graph, feeds, fetches, registry, functions, xp, device_type).make()
    if names is not None:
        plan.fetches = [(*place[:2], name) for place, name in zip(plan.fetches, names, strict=True)]
    return plan


class _Planner:
    """The tables that only exist while a plan is made."""

    def __init__(
        self,
        graph: Graph,
        feeds: Sequence[OutputPort],
        fetches: Sequence[OutputPort],
        registry: KernelRegistry,
        functions: Functions | None,
        xp: Any,
        device_type: str,
    ) -> None:
        self.graph = graph
        self.feeds = {port: index for index, port in enumerate(feeds)}
        self.fetches = fetches
        self.registry = registry
        self.functions = functions
        self.xp = xp
        self.device_type = device_type
        self.frame_of = assign_frames(graph, self.feeds)
        self.frames: dict[FramePath, StaticFrame] = {}
        self.items: dict[str, Item] = {}
        #: Items that only follow a reference, by a key that no node has.
        self.readers: dict[str, Item] = {}
        #: {name of a baked Const: its value}
        self.baked: dict[str, Any] = {}
        self.merges: dict[str, list[list[MergeEdge]]] = {}
        self.control: dict[str, list[tuple[int, Item]]] = {}
        self.control_merges: dict[str, list[Item]] = {}
        self.passing: dict[str, list[list[Item]]] = {}
        #: The nodes that give a reference.
        self.references = {node.name for node in graph for dtype in node.output_types if dtype.is_ref}
        #: {a node that only hands its input on: that input}
        self.handed_on = {
            node.name: node.inputs[0] for node in graph if node.op in _FORWARDING and self._forwards(node)
        }
        self.fed_nodes = frozenset(port.node for port in feeds)
        self.signatures: dict[tuple[Any, ...], _Signature] = {}
        #: {op: the attributes on which the types of its inputs depend}
        self.type_attrs: dict[str, tuple[str, ...]] = {}
        #: Forwarding nodes and Consts whose consumers take what they give from elsewhere.
        self.needed = self._nodes_that_must_run()
        self.feed_edges: list[tuple[list[Edge], list[MergeEdge]]] = [([], []) for _ in feeds]
        self.baked_merges: dict[str, list[MergeEdge]] = {}

    def make(self) -> Plan:
        root = self.frames[()] = StaticFrame((), None)
        for order, node in enumerate(self.graph):
            self._add_item(node, order)
        for item in self.items.values():
            self._connect(item)
        places = [self._place_fetch(index, port) for index, port in enumerate(self.fetches)]
        self.items.update(self.readers)
        for key, item in self.items.items():
            self._seal(key, item)
        return Plan(
            root=root,
            items=list(self.items.values()),
            sources=[item for item in root.items if not root.pending[item.local]],
            feeds=[(tuple(edges), tuple(merges)) for edges, merges in self.feed_edges],
            constants=[((), tuple(m), self.baked[name]) for name, m in self.baked_merges.items()],
            fetches=places,
            graph=self.graph,
            frames=self.frames,
        )

    # -- what need not run ---------------------------------------------------------------------------

    def _nodes_that_must_run(self) -> set[str]:
        """Consts and Identities that have a consumer which only an item can serve.

        A control edge needs an item to come from, a Merge needs a token to arrive. Any other consumer of
        a Const finds the value in its entries, and of an Identity takes the Identity's own input.
        """
        dropped = self._consts_without_item()
        needed: set[str] = {node.name for node in self.graph if node.op == "Const"} - dropped
        for node in self.graph:
            if node.name not in dropped:
                needed.update(node.control_inputs)
            for port in node.inputs:
                if port.node in dropped and port not in self.feeds:
                    controls = self.graph[port.node].control_inputs
                    needed.update(name for name in controls if not self._depends_on(node, name))
        return needed

    def _consts_without_item(self) -> set[str]:
        """Consts whose every consumer can find the value in its entries."""
        consts = {node.name for node in self.graph if node.op == "Const"}
        kept = {port.node for port in self.fetches if self._is_controlled_const(port)}
        for node in self.graph:
            kept.update(name for name in node.control_inputs if name in consts)
            if node.op in MERGE_OPS:
                kept.update(port.node for port in node.inputs)
        uncontrolled = {name for name in consts if not self.graph[name].control_inputs}
        return (consts - kept) | uncontrolled

    def _is_controlled_const(self, port: OutputPort) -> bool:
        node = self.graph.nodes.get(port.node)
        return node is not None and node.op == "Const" and bool(node.control_inputs)

    def _forwards(self, node: Node) -> bool:
        """Whether the node's output is its input, at the same time and as dead: nothing is computed."""
        return (
            node.op in _FORWARDING
            and not node.control_inputs
            and (node.op == "RefIdentity" or not self._is_reference(node.inputs[0]))
        )

    def _resolve(self, port: OutputPort) -> OutputPort:
        """Where a value really comes from: through Identities that wait for nothing else."""
        while (source := self.handed_on.get(port.node)) is not None and port not in self.feeds:
            port = source
        return port

    # -- items --------------------------------------------------------------------------------------

    def _add_item(self, node: Node, order: int) -> None:
        path = self.frame_of.get(node.name)
        if path is None:
            raise InvalidArgumentError(
                f"'{node.name}' can never run: it is part of a cycle that no Enter leads into"
            )
        if node.op == "Const":
            self.baked[node.name] = constant_value(node)
            if node.name not in self.needed:
                return
        elif node.name in self.handed_on and node.name not in self.needed:
            return
        frame = self._frame(path)
        item = Item(node, order, frame)
        item.num_outputs = len(node.output_types)
        self.items[node.name] = item
        self._classify(item)

    def _frame(self, path: FramePath) -> StaticFrame:
        frame = self.frames.get(path)
        if frame is None:
            frame = self.frames[path] = StaticFrame(path, self._frame(path[:-1]))
        return frame

    def _classify(self, item: Item) -> None:
        node = item.node
        op = node.op
        if op in SWITCH_OPS:
            item.kind = Kind.SWITCH
        elif op in MERGE_OPS:
            item.kind = Kind.MERGE
            item.merge_inputs = len(node.inputs)
        elif op in ENTER_OPS:
            item.kind = Kind.ENTER
            item.is_constant_enter = bool(node.attrs["is_constant"])
            item.target_frame = target = self._frame(output_frame(node, item.frame.path))
            target.enters += 1
            target.parallel_iterations = max(1, int(node.attrs["parallel_iterations"]))
        elif op in EXIT_OPS:
            item.kind = Kind.EXIT
        elif op in NEXT_ITERATION_OPS:
            item.kind = Kind.NEXT_ITERATION
        elif op in ("NoOp", "ControlTrigger"):
            item.kind = Kind.TRIGGER
            item.runs_dead = op == "ControlTrigger"
        elif op == "Const":
            item.kind = Kind.CONSTANT
            item.value = self.baked[node.name]
        elif op in _FORWARDING:
            item.kind = Kind.FORWARD
        elif op == "_Region":
            item.kind = Kind.REGION
            item.region = compile_region(node.attrs["program"], self.registry, self.xp)
            item.mutates = any(t.is_ref or t is resource for t in node.attrs["Tin"])
            item.is_pure = not item.mutates and self._is_pure(node.attrs["program"])
        elif self.functions is not None and self.functions.calls(node):
            item.kind = Kind.CALL
            item.call = self.functions.bind(node, self.registry)
        else:
            self._bind(item)
            if op in _SEND_OPS or op in _RECEIVE_OPS:
                item.kind = Kind.SEND if op in _SEND_OPS else Kind.RECEIVE
                item.runs_dead = True

    def _is_pure(self, program: Program) -> bool:
        """Whether the members of a region touch nothing but their inputs."""
        for unit in program.units:
            op_def = None if unit.node is None else unit.node.op_def
            if op_def is None or op_def.is_stateful:
                return False
            kernels = self.registry.candidates(op_def.name, self.device_type)
            if any(kernel.takes_context for kernel in kernels):
                return False
        return True

    def _bind(self, item: Item) -> None:
        node = item.node
        if node.op_def is None:
            error = NotFoundError(f"Op type not registered '{node.op}'")
            error.missing_op = node.op
            raise located(error, node)
        try:
            kernel = self.registry.find(node, self.device_type)
        except OpError as error:
            raise located(error, node) from None
        item.function = kernel.bind(node, self.xp)
        item.nowait = kernel.bind_nowait(node, self.xp)
        item.takes_context = kernel.takes_context
        # A provider's kernels use every core by themselves, like BLAS: one at a time.
        item.is_product = node.op in _PRODUCTS or kernel.maker is not None
        if kernel.is_async:
            item.kind = Kind.ASYNC
        self._shape_call(item, kernel)

    def _shape_call(self, item: Item, kernel: Kernel) -> None:
        """Decide how the inputs are passed, and what it takes to compute them on a worker thread."""
        signature = self._signature(item.node, kernel)
        item.groups = signature.groups
        item.mutates = signature.mutates
        item.cost = signature.cost
        item.inline_bytes = signature.inline_bytes
        if item.kind == Kind.GENERAL:
            item.kind = signature.kind

    def _signature(self, node: Node, kernel: Kernel) -> _Signature:
        """The same for all nodes of a kernel whose inputs are of the same types."""
        assert node.op_def is not None
        attrs = node.attrs
        names = self.type_attrs.get(node.op)
        if names is None:
            names = self.type_attrs[node.op] = _type_attrs(node.op_def)
        key = (kernel, len(node.output_types), *[attrs[name] for name in names])
        known = self.signatures.get(key)
        if known is None:
            known = self.signatures[key] = _make_signature(node, node.op_def, kernel)
        return known

    # -- edges --------------------------------------------------------------------------------------

    def _connect(self, item: Item) -> None:
        """Give the item its places in its frame's tables and its producers an edge to each."""
        frame = item.frame
        item.local = len(frame.pending)
        frame.items.append(item)
        frame.pending.append(0)
        item.start = len(frame.entries)
        if item.kind == Kind.MERGE:
            item.arity = 2
            frame.entries += [DEAD, None]
            frame.pending[item.local] = 1
            for slot, port in enumerate(item.node.inputs):
                self._connect_merge(item, slot, port)
        else:
            inputs = item.node.inputs
            item.arity = len(inputs)
            frame.entries += [None] * len(inputs)
            for slot, port in enumerate(inputs):
                self._connect_data(item, item.start + slot, port)
            if self.references:
                self._find_references(item)
        item.stop = item.start + item.arity
        if item.kind in (Kind.FORWARD, Kind.SWITCH, Kind.NEXT_ITERATION, Kind.EXIT, Kind.ENTER):
            item.follows = bool(item.dereference)
        for name in item.node.control_inputs:
            self._connect_control(item, name)
        if item.kind == Kind.MERGE:
            item.is_immediate = frame.pending[item.local] == 1

    def _find_references(self, item: Item) -> None:
        """Note the inputs that are given as references and wanted as values."""
        given = [slot for slot, port in enumerate(item.node.inputs) if self._is_reference(port)]
        if not given:
            return
        wanted = item.node.input_types()
        item.dereference = tuple(slot for slot in given if not wanted[slot].is_ref)
        if item.dereference and item.kind in (Kind.UNARY, Kind.BINARY):
            item.kind = Kind.GENERAL

    def _connect_data(self, item: Item, entry: int, port: OutputPort) -> None:
        if port.node in self.handed_on:
            port = self._resolve(port)
        frame = item.frame
        feed = self.feeds.get(port) if port.node in self.fed_nodes else None
        if feed is not None:
            self.feed_edges[feed][0].append((item.local, entry, item))
        elif port.node in self.baked:
            frame.entries[entry] = self.baked[port.node]
            self._inherit_control(item, self.graph[port.node])
            return
        elif item.kind in (Kind.NEXT_ITERATION, Kind.EXIT) and self._only_passes(item, port):
            self._outputs(self.passing, port).append(item)
        else:
            self._edges(port).append((item.local, entry, item))
        frame.pending[item.local] += 1

    def _only_passes(self, item: Item, port: OutputPort) -> bool:
        """Whether a NextIteration or Exit waits for one value only: then it moves on as it arrives."""
        return not item.node.control_inputs and (
            item.node.op in ("RefNextIteration", "RefExit") or not self._is_reference(port)
        )

    def _inherit_control(self, item: Item, constant: Node) -> None:
        """A Const's control inputs hold for who uses it: the item waits for them, and dies with them."""
        for name in constant.control_inputs:
            if not self._depends_on(item.node, name):
                self._connect_control(item, name)

    def _depends_on(self, node: Node, name: str) -> bool:
        """Whether a node has an input that is as late and as dead as control input `name` would be."""
        if name in node.control_inputs:
            return True
        source = self.graph[name]
        origin = self._resolve(OutputPort(name, 0)) if self._forwards(source) else None
        for port in node.inputs:
            if port.node == name and source.op not in SWITCH_OPS and port not in self.feeds:
                return True
            if origin is not None and self._resolve(port) == origin:
                return True
        return False

    def _connect_merge(self, item: Item, slot: int, port: OutputPort) -> None:
        # What is fed need not be in the graph any more.
        from_enter = port not in self.feeds and self.graph[port.node].op in ENTER_OPS
        port = self._resolve(port)
        feed = self.feeds.get(port)
        if feed is not None:
            self.feed_edges[feed][1].append((item, slot, False))
        elif port.node in self.baked and port.node not in self.items:
            self.baked_merges.setdefault(port.node, []).append((item, slot, False))
        else:
            if item.node.op == "Merge" and self._is_reference(port):
                key = f"{port} (input {slot} of {item.name})"
                self._follow(key, port, item.frame)
                self.merges[key] = [[(item, slot, from_enter)]]
            else:
                self._outputs(self.merges, port).append((item, slot, from_enter))

    def _edges(self, port: OutputPort) -> list[Edge]:
        """Where the plain edges out of a port are collected; `_seal` makes tuples of them."""
        item = self.items[port.node]
        if not item.edges:
            item.edges = [[] for _ in range(item.num_outputs)]
        collected = item.edges[port.slot]
        assert isinstance(collected, list)
        return collected

    def _outputs(self, table: dict[str, list[list[Any]]], port: OutputPort) -> list[Any]:
        slots = table.get(port.node)
        if slots is None:
            count = self.items[port.node].num_outputs
            slots = table[port.node] = [[] for _ in range(count)]
        return slots[port.slot]

    def _connect_control(self, item: Item, name: str) -> None:
        if name not in self.items:
            return  # a Const that waits for nothing: it has always run
        item.frame.pending[item.local] += 1
        if item.kind == Kind.MERGE:
            self.control_merges.setdefault(name, []).append(item)
        else:
            self.control.setdefault(name, []).append((item.local, item))

    def _is_reference(self, port: OutputPort) -> bool:
        if port.node not in self.references or port in self.feeds:
            return False
        types = self.graph[port.node].output_types
        return port.slot < len(types) and types[port.slot].is_ref

    # -- fetches ------------------------------------------------------------------------------------

    def _place_fetch(self, index: int, port: OutputPort) -> tuple[int, int, OutputPort]:
        """A place among the root's entries where the fetched value comes to lie."""
        root = self.frames[()]
        local, entry = len(root.pending), len(root.entries)
        root.pending.append(_NEVER)
        root.entries.append(DEAD)
        origin = self._resolve(port)
        if origin in self.feeds:
            self.feed_edges[self.feeds[origin]][0].append((local, entry, _nobody(root)))
            return local, entry, port
        if origin.node in self.baked and origin.node not in self.items:
            root.entries[entry] = self.baked[origin.node]
            return local, entry, port
        producer = self.items[origin.node]
        delivered = output_frame(producer.node, producer.frame.path)
        if delivered:
            raise InvalidArgumentError(
                f"'{port}' cannot be fetched: it belongs to {describe_frame(delivered)}, "
                "where it has one value an iteration; fetch what an Exit of the loop gives"
            )
        if not self._is_reference(origin):
            self._edges(origin).append((local, entry, _nobody(root)))
            return local, entry, port
        reader = self._follow(f"{port} (fetch {index})", origin, root)
        reader.edges = (((local, entry, _nobody(root)),),)
        return local, entry, port

    def _follow(self, key: str, port: OutputPort, frame: StaticFrame) -> Item:
        """An item of its own that follows a reference, for a consumer that is not one that could.

        A reference is followed when its consumer runs. `key` is what the item is filed under.
        """
        reader = Item(self.graph[port.node], len(self.graph) + len(self.readers), frame)
        reader.kind = Kind.FORWARD
        reader.num_outputs = 1
        reader.arity = 1
        reader.dereference = (0,)
        reader.follows = True
        reader.local, reader.start = len(frame.pending), len(frame.entries)
        reader.stop = reader.start + 1
        frame.pending.append(1)
        frame.entries.append(None)
        frame.items.append(reader)
        self.readers[key] = reader
        self._edges(port).append((reader.local, reader.start, reader))
        return reader

    def _seal(self, key: str, item: Item) -> None:
        """Freeze what was collected for the item that is filed under `key`."""
        edges = item.edges
        item.edges = tuple(map(tuple, edges)) if edges else ((),) * max(item.num_outputs, 1)
        merges = self.merges.get(key)
        item.merge_edges = None if merges is None else tuple(map(tuple, merges))
        passing = self.passing.get(key)
        item.passing = None if passing is None else tuple(map(tuple, passing))
        control = self.control.get(key)
        item.control = None if control is None else tuple(control)
        control_merges = self.control_merges.get(key)
        item.control_merges = None if control_merges is None else tuple(control_merges)
        item.has_rare_edges = bool(merges or passing or control or control_merges)
        item.single = item.num_outputs == 1


@dataclass(frozen=True, slots=True)
class _Signature:
    """How a kernel is called, and what it takes to compute it on a worker thread: see `Item`."""

    groups: tuple[int | None, ...] | None
    mutates: bool
    cost: Callable[..., float] | None
    inline_bytes: int
    kind: int


def _type_attrs(op_def: OpDef) -> tuple[str, ...]:
    names = [(arg.type_attr, arg.number_attr, arg.type_list_attr) for arg in op_def.inputs]
    return tuple(dict.fromkeys(name for each in names for name in each if name is not None))


def _make_signature(node: Node, op_def: OpDef, kernel: Kernel) -> _Signature:
    lists: list[int | None] = []
    plain, mutates = True, False
    for arg in op_def.inputs:
        types = arg.types(node.attrs)
        lists.append(len(types) if arg.is_list else None)
        if arg.is_ref or any(t.base is resource for t in types):
            mutates = True
        plain = plain and not any(_is_object(t) for t in types)
    groups = tuple(lists) if any(length is not None for length in lists) else None
    cost: Callable[..., float] | None = None
    if kernel.heavy is False or kernel.is_async or not (plain or mutates):
        inline_bytes = _ALWAYS_INLINE
    elif kernel.heavy is None or kernel.heavy is True:
        inline_bytes = INLINE_BYTES
    else:
        cost = kernel.heavy
        sized_by_inputs = not any(t.is_integer for t in node.input_types()) and len(node.inputs) > 1
        inline_bytes = ESTIMATE_BYTES if sized_by_inputs else -1
    kind = Kind.GENERAL
    if (
        plain
        and groups is None
        and not mutates
        and not kernel.takes_context
        and len(node.output_types) == 1
        and inline_bytes >= 0
        and len(node.inputs) in (1, 2)
    ):
        kind = Kind.UNARY if len(node.inputs) == 1 else Kind.BINARY
    return _Signature(groups, mutates, cost, inline_bytes, kind)


def _nobody(root: StaticFrame) -> Item:
    """The consumer that stands behind a fetch's place: its count never reaches zero."""
    return Item(_NOBODY, 1 << 40, root)


_NOBODY: Final = Node("", "_Fetch")


def _is_object(dtype: DType) -> bool:
    return dtype.base in (string, resource, variant)


def constant_value(node: Node) -> Any:
    """The value of a Const, of rank 0 or more, read-only."""
    try:
        value = to_array(node.attrs["value"].value())
    except OpError as error:
        raise located(error, node) from None
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def located(error: OpError, node: Node) -> OpError:
    """Say at which node an error came up while planning."""
    return error.locate(
        node_name=node.name, op_type=node.op, device=node.device, creation_site=node.creation_site or None
    )


def kernel_summary(plan: Plan) -> Mapping[str, int]:
    """{kind of item: how many}, for `explain`."""
    counts: dict[str, int] = {}
    for item in plan.items:
        name = KIND_NAMES[item.kind]
        counts[name] = counts.get(name, 0) + 1
    return counts
