"""Requests: the arguments of `run`, checked against a graph, with the conversions of values.

A local session and a remote one read fetches, feeds and targets alike, because both use this module.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from flowengine.core.config import Settings
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.graphs.graph import Graph as BuildGraph
from flowengine.ir.frames import FramePath, assign_frames, describe_frame, output_frame
from flowengine.ir.graph import NodeGraph, OutputPort
from flowengine.ir.names import ENTER_OPS
from flowengine.ir.opdef import OpRegistry
from flowengine.ir.traits import ExternalValue
from flowengine.kernels.registry import KernelRegistry
from flowengine.ops.load import registry as op_registry
from flowengine.passes.context import PassContext
from flowengine.runtime.planning.fetches import FetchPlan, fed_port_of
from flowengine.runtime.planning.values import FeedSpec, FetchSpec

#: Before this producer version a Placeholder of unknown shape was written with an empty one.
_SHAPED_PLACEHOLDERS: Final = 24


#: Ports fed, ports fetched, and nodes run for their effect.
PlanKey: TypeAlias = tuple[tuple[OutputPort, ...], tuple[OutputPort, ...], tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Request:
    """One combination of feeds, fetches and targets.

    ports      of the feeds, in the caller's order
    wanted     ports and targets, and the index of each leaf's value
    feeds      the conversion of each fed value
    fetches    the conversion of each fetched value
    """

    ports: tuple[OutputPort, ...]
    wanted: FetchPlan
    feeds: list[FeedSpec]
    fetches: list[FetchSpec]

    @property
    def plan_key(self) -> PlanKey:
        """Return the key of its plan: all requests for the same tensors share one plan."""
        return self.ports, self.wanted.ports, self.wanted.targets


class Requests:
    """Reads requests to one graph, for as long as the graph does not change."""

    def __init__(self, graph: NodeGraph) -> None:
        self.graph = graph
        self._frames: dict[str, FramePath] | None = None

    def read(self, leaves: Iterable[Any], feeds: Sequence[Any], targets: Sequence[Any]) -> Request:
        """Check a request. Raises InvalidArgumentError or NotFoundError that names its fault.

        leaves   of the fetches: see `fetches.unpack`
        """
        wanted = FetchPlan(self.graph, leaves, targets)
        ports = tuple(fed_port_of(self.graph, feed) for feed in feeds)
        if len(set(ports)) != len(ports):
            raise InvalidArgumentError("a tensor is fed twice: " + ", ".join(map(str, ports)))
        for port in ports:
            self._check_frame(port, "fed")
        for port in wanted.ports:
            self._check_frame(port, "fetched")
        return Request(
            ports,
            wanted,
            [self._feed_spec(port) for port in ports],
            [FetchSpec(str(port), self._dtype(port)) for port in wanted.ports],
        )

    def context(self, request: Request | None, settings: Settings, kernels: KernelRegistry) -> PassContext:
        """Return the context of a request for passes; without a request, one of none in particular."""
        feeds = () if request is None else request.ports
        return PassContext(
            feeds=feeds,
            fetches=() if request is None else request.wanted.ports,
            targets=() if request is None else request.wanted.targets,
            fold_constants=settings.fold_constants,
            merge_common_subexpressions=settings.merge_common_subexpressions,
            fuse_elementwise=settings.fuse_elementwise,
            fuse_contractions=settings.fuse_contractions,
            fold_batch_norms=settings.fold_batch_norms,
            kernels=kernels,
            registry=self._registry() if settings.open_calls else None,
            memory_bytes_max=settings.memory_limit_bytes,
            declared=tuple(node for port in feeds if (node := self.graph[port.node]).is_placeholder),
        )

    def _registry(self) -> OpRegistry:
        """Return the ops of the graph, for bodies of its functions."""
        return self.graph.registry if isinstance(self.graph, BuildGraph) else op_registry()

    def _check_frame(self, port: OutputPort, what: str) -> None:
        """Refuse an edge inside a loop: with a value in each iteration, it can be neither fed nor fetched."""
        if self._frames is None:
            self._frames = {}
            if any(node.op in ENTER_OPS for node in self.graph):
                try:
                    self._frames = assign_frames(self.graph)
                except OpError:
                    # A part of the graph is malformed; steps that reach it report the fault.
                    self._frames = {}
        frame = output_frame(self.graph[port.node], self._frames.get(port.node, ()))
        if frame:
            raise InvalidArgumentError(
                f"'{port}' cannot be {what}: it belongs to {describe_frame(frame)}, where it has one value "
                "an iteration; use what goes into its Enter or comes out of its Exit"
            )

    def _dtype(self, port: OutputPort) -> DType | None:
        types = self.graph[port.node].output_types
        return types[port.slot] if port.slot < len(types) else None

    def _feed_spec(self, port: OutputPort) -> FeedSpec:
        node = self.graph[port.node]
        dtype = self._dtype(port)
        if dtype is None:
            raise InvalidArgumentError(
                f"'{port}' cannot be fed: the op {node.op} is unknown; import the module that registers it"
            )
        shape = UNKNOWN_SHAPE
        fed = node.trait(ExternalValue)
        if fed is not None:
            declared = node.attrs.get("shape", UNKNOWN_SHAPE)
            if isinstance(declared, TensorShape) and (
                declared.rank or self.graph.producer >= _SHAPED_PLACEHOLDERS or fed.is_exact
            ):
                shape = declared
        return FeedSpec(str(port), dtype, shape)


def request_key(leaves: tuple[Any, ...], feed_dict: Iterable[Any], targets: Iterable[Any]) -> Any:
    """Return the key of a request, by the leaves of its fetches; None if a part of it is not hashable."""
    key = (leaves, tuple(feed_dict), tuple(targets))
    try:
        hash(key)
    except TypeError:
        return None
    return key


__all__ = ["PlanKey", "Request", "Requests", "request_key"]
