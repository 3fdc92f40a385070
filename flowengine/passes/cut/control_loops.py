"""Control loops, which keep the devices of a split while loop in step (white paper 3.2.2 and 4.4).

A device that holds any node of a frame whose nodes are on several devices gets a small loop of its own in
that frame, and in every frame around it:

    Const -> Enter -> Merge -> Switch -true-> NextIteration -> (back to Merge)
                                 ^
                                pred, received from the device that has the loop's condition

It begins an iteration there whenever the condition says so. Nodes without inputs of their own in the frame,
such as the Recvs, get a control edge from its Merge. It has the parallel iterations of the loop.
"""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

import numpy as np

from flowengine.core.dtypes import float32
from flowengine.ir import make
from flowengine.ir.attrs import TensorAttr
from flowengine.ir.frames import FramePath, output_frame
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import ENTER_OPS, LOOP_COND, NEXT_ITERATION_OPS
from flowengine.ir.opdef import OpRegistry

_TOKEN: Final = TensorAttr.of(np.zeros((), np.float32), float32)


class GraphCutting(Protocol):
    """The tables of a graph that is being cut: see `GraphPartitioner`."""

    graph: NodeGraph
    frames: dict[str, FramePath]
    order: dict[str, int]
    parts: dict[str, dict[str, tuple[tuple[int, int], Node]]]
    ops: OpRegistry

    def new_name(self, stem: str, device: str) -> str: ...

    def put(self, node: Node, device: str, place: tuple[int, int], frame: FramePath) -> Node: ...

    def port_on(self, port: OutputPort, device: str) -> OutputPort: ...


class ControlLoops:
    """The control loops of one graph that is being cut, named on first use and built at the end."""

    def __init__(self, cutting: GraphCutting) -> None:
        # It refers to this object: the two would live on until the collector runs.
        self._cutting: GraphCutting = weakref.proxy(cutting)
        #: {(frame, device): name of its Merge}
        self._anchors: dict[tuple[FramePath, str], str] = {}
        #: For each frame: its LoopCond, one of its Enters, and whether it iterates at all.
        self._conditions: dict[FramePath, Node] = {}
        self._enters: dict[FramePath, Node] = {}
        self._advancing: set[FramePath] = set()
        for node in cutting.graph:
            path = cutting.frames.get(node.name, ())
            if node.op == LOOP_COND:
                self._conditions[path] = node
            elif node.op in ENTER_OPS:
                self._enters.setdefault(output_frame(node, path), node)
            elif node.op in NEXT_ITERATION_OPS:
                self._advancing.add(path)

    def anchor(self, frame: FramePath, device: str) -> str:
        """Return the node that runs in every iteration of a frame on a device."""
        name = self._anchors.get((frame, device))
        if name is None:
            stem = f"{self._enters[frame].name}/_control_merge"
            name = self._anchors[frame, device] = self._cutting.new_name(stem, device)
        return name

    def build(self) -> None:
        """Make a loop for every frame and device that needs one.

        The innermost frames first, since a loop is itself a node of the frame around it.
        """
        cutting = self._cutting
        devices: dict[FramePath, set[str]] = {}
        if self._enters:
            for device, part in cutting.parts.items():
                for name in part:
                    devices.setdefault(cutting.frames.get(name, ()), set()).add(device)
        for path in sorted(self._enters, key=len, reverse=True):
            there = devices.get(path, set())
            if len(there) > 1:
                for device in sorted(there):
                    self._build(path, device)
                devices.setdefault(path[:-1], set()).update(there)

    def _build(self, path: FramePath, device: str) -> None:
        cutting = self._cutting
        enter = self._enters[path]
        place = (cutting.order[enter.name], 0)
        merge = self.anchor(path, device)

        def name(what: str) -> str:
            return cutting.new_name(f"{enter.name}/_control_{what}", device)

        def put(node: Node, frame: FramePath, slot: int = 0) -> OutputPort:
            return OutputPort(cutting.put(node, device, place, frame).name, slot)

        ops, outside = cutting.ops, path[:-1]
        if outside:
            start = OutputPort(self.anchor(outside, device), 0)
        else:
            start = put(make.const(ops, name("token"), _TOKEN), ())
        bounds = {key: enter.attrs[key] for key in ("frame_name", "parallel_iterations")}
        entering = make.node(ops, "Enter", name("enter"), inputs=(start,), T=float32, **bounds)
        first = back = put(entering, outside)
        if path in self._advancing:
            pred = cutting.port_on(OutputPort(self._conditions[path].name, 0), device)
            data = OutputPort(merge, 0)
            going_on = put(make.node(ops, "Switch", name("switch"), inputs=(data, pred), T=float32), path, 1)
            back = put(make.node(ops, "NextIteration", name("next"), inputs=(going_on,), T=float32), path)
        put(make.node(ops, "Merge", merge, inputs=(first, back), T=float32, N=2), path)


def gather_unusual_frames(
    graph: NodeGraph, frames: Mapping[str, FramePath], device_of: dict[str, str]
) -> None:
    """Put all nodes of a frame, and of those inside it, on one device if it is not a loop of the usual form.

    A frame that iterates without exactly one LoopCond announces its iterations to nobody: only a device with
    all of it can tell. The device is that of a node which follows a reference, else the one of most nodes.
    """
    advancing = {frames[n.name] for n in graph if n.op in NEXT_ITERATION_OPS and n.name in frames}
    conditions = Counter(frames[n.name] for n in graph if n.op == LOOP_COND and n.name in frames)
    for path in sorted(p for p in advancing if conditions[p] != 1):
        members = [n for n in graph if frames.get(n.name, ())[: len(path)] == path]
        bound = [n for n in members if any(t.is_ref for t in n.input_types())]
        (chosen, _), *_ = Counter(device_of[n.name] for n in bound or members).most_common(1)
        for node in members:
            device_of[node.name] = chosen


__all__ = ["ControlLoops", "gather_unusual_frames"]
