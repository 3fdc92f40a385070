"""The binding of a plan's nodes for the executor: kind, kernel, and the way to call the kernel."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from flowengine.core.arrays import to_array
from flowengine.core.dtypes import resource
from flowengine.core.errors import NotFoundError, OpError
from flowengine.core.work_pieces import Pieces
from flowengine.ir.attrs import AttrValue
from flowengine.ir.frames import FramePath, output_frame
from flowengine.ir.graph import Node
from flowengine.ir.names import (
    CONTROL_FLOW_OPS,
    CONTROL_TRIGGER,
    ENTER_OPS,
    EXIT_OPS,
    MERGE_OPS,
    REGION,
    SEND_OPS,
    SWITCH_OPS,
    TRANSFER_OPS,
)
from flowengine.ir.traits import Constant, EveryCore, HandsOn, Orders, Product
from flowengine.kernels.registry import Kernel, KernelRegistry
from flowengine.passes.blocks.codegen import compiling_region
from flowengine.passes.blocks.compiled_regions import CompiledRegion
from flowengine.passes.blocks.region_units import Unit
from flowengine.resources.function_calls import FunctionCaller
from flowengine.runtime.planning.items import Item, Kind, StaticFrame
from flowengine.runtime.planning.signatures import Signatures, takes_variables
from flowengine.runtime.planning.timings import ItemTimes
from flowengine.transport.tensors.routes import Route


class Functions(Protocol):
    """A maker of function calls; see `runtime.planning.functions`, which makes plans, too."""

    caller: FunctionCaller | None

    def calls(self, node: Node) -> bool: ...

    def bind(self, node: Node, kernels: KernelRegistry) -> Any: ...


class Binder:
    """Binds nodes to the kernels of one device: `registry` has them, with its array module."""

    __slots__ = ("_compiled", "_functions", "_registry", "_signatures")

    def __init__(self, registry: KernelRegistry, functions: Functions | None) -> None:
        self._registry = registry
        self._functions = functions
        self._signatures = Signatures()
        #: {name of a region: its code, compiled beforehand}
        self._compiled: dict[str, CompiledRegion] = {}

    def compiling(self, node: Node) -> Pieces[None]:
        """Compile a region in pieces, for `classify` to find."""
        self._compiled[node.name] = yield from compiling_region(node.attrs["program"], self._registry)

    def classify(self, item: Item, frame_of: Callable[[FramePath], StaticFrame]) -> None:
        """Give an item its kind, and the code that it runs.

        frame_of   gives the static frame of a path
        Raises NotFoundError with `missing_op` if there is no such op or kernel, naming the node.
        """
        node = item.node
        op = node.op
        if op in CONTROL_FLOW_OPS:
            self._classify_control(item, frame_of)
        elif node.has(Orders) or op == CONTROL_TRIGGER:
            item.kind = Kind.TRIGGER
            item.runs_dead = op == CONTROL_TRIGGER
        elif node.has(Constant):
            item.kind = Kind.CONSTANT
        elif node.has(HandsOn):
            item.kind = Kind.FORWARD
        elif op == REGION:
            item.kind = Kind.REGION
            item.region = self._compiled.pop(node.name)
            item.mutates = any(t.is_ref or t is resource for t in node.attrs["Tin"])
            item.keeps_thread = not all(map(self._is_movable, node.attrs["program"].units))
            item.is_pure = not item.mutates and not item.keeps_thread
        elif self._functions is not None and self._functions.calls(node):
            item.kind = Kind.CALL
            item.call = self._functions.bind(node, self._registry)
        else:
            self._bind(item)
            if op in TRANSFER_OPS:
                item.kind = Kind.SEND if op in SEND_OPS else Kind.RECEIVE
                item.runs_dead = True
                item.route = _route_of(node.attrs)

    def constant(self, node: Node) -> Any:
        """Return the value of a constant, in the memory of its consumers."""
        return self._registry.placed(node, constant_value(node))

    def _classify_control(self, item: Item, frame_of: Callable[[FramePath], StaticFrame]) -> None:
        """Give a node of control flow its kind."""
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
            item.target_frame = target = frame_of(output_frame(node, item.frame.path))
            target.enters += 1
            target.parallel_iterations = max(1, int(node.attrs["parallel_iterations"]))
        else:
            item.kind = Kind.EXIT if op in EXIT_OPS else Kind.NEXT_ITERATION

    def _is_movable(self, unit: Unit) -> bool:
        """Return whether a member of a region only touches its inputs, so that a thread may run it."""
        node = unit.node
        op_def = None if node is None else node.op_def
        if node is None or op_def is None or (op_def.is_stateful and not any(takes_variables(node))):
            return False
        kernels = self._registry.candidates(op_def.name)
        return not any(kernel.takes_context for kernel in kernels)

    def _bind(self, item: Item) -> None:
        node = item.node
        if node.op_def is None:
            error = NotFoundError(f"Op type not registered '{node.op}'")
            error.missing_op = node.op
            raise located(error, node)
        try:
            kernel = self._registry.find(node)
        except OpError as error:
            raise located(error, node) from None
        item.function = kernel.bind(node)
        item.nowait = kernel.bind_nowait(node)
        item.takes_context = kernel.takes_context
        item.lends_memory = kernel.heavy is False and not kernel.fresh
        # Most kernels of providers use every core by themselves, like BLAS: one at a time.
        uses_every = kernel.maker is not None and not kernel.one_core
        item.is_product = uses_every or node.has(Product) or node.has(EveryCore)
        if kernel.is_async:
            item.kind = Kind.ASYNC
        self._shape_call(item, kernel)

    def _shape_call(self, item: Item, kernel: Kernel) -> None:
        """Decide how the inputs are passed, and whether a worker thread can compute them."""
        signature = self._signatures.of(item.node, kernel)
        item.groups = signature.groups
        item.mutates = signature.mutates
        item.cost = signature.cost
        item.times = ItemTimes(signature.inline_bytes)
        if item.kind == Kind.GENERAL:
            item.kind = signature.kind


def constant_value(node: Node) -> Any:
    """Return the value of a constant, of rank 0 or more, read-only."""
    constant = node.trait(Constant)
    assert constant is not None
    try:
        value = to_array(node.attrs[constant.value].value())
    except OpError as error:
        raise located(error, node) from None
    if value.flags.writeable:
        value = value.view()
        value.flags.writeable = False
    return value


def _route_of(attrs: Mapping[str, AttrValue]) -> Route:
    """Return the edge of a Send or a Recv, as both ends name it."""
    device, edge, target = (
        text.decode("utf-8", "surrogateescape") if isinstance(text, bytes) else ""
        for text in (attrs["send_device"], attrs["tensor_name"], attrs["recv_device"])
    )
    incarnation = attrs["send_device_incarnation"]
    return device, incarnation if isinstance(incarnation, int) else 0, edge, target


def located(error: OpError, node: Node) -> OpError:
    """Add to an error the node at which it was raised while planning."""
    return error.locate(
        node_name=node.name, op_type=node.op, device=node.device, creation_site=node.creation_site or None
    )


__all__ = ["Binder", "Functions", "constant_value", "located"]
