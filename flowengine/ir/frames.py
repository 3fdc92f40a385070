"""Which frame each node is in, found from Enter and Exit.

A node's static frame is the path of frame names from the root: `()` outside any loop, `("outer",
"inner")` inside two. Enter belongs to the frame outside and delivers into the one it names; Exit
belongs to the frame that it leaves.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Container
from typing import Final, TypeAlias

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.ir.names import ENTER_OPS, EXIT_OPS, NEXT_ITERATION_OPS

#: Frame names from the outermost in; () is the root frame.
FramePath: TypeAlias = tuple[str, ...]

#: They make no sense outside of a loop.
_WITHIN: Final = EXIT_OPS | NEXT_ITERATION_OPS
_CROSSING: Final = ENTER_OPS | _WITHIN


def frame_name(enter: Node) -> str:
    """The frame that an Enter enters."""
    name: bytes = enter.attrs["frame_name"]
    return name.decode("utf-8", "surrogateescape")


def output_frame(node: Node, frame: FramePath) -> FramePath:
    """The frame into which a node that runs in `frame` delivers its outputs."""
    if node.op in ENTER_OPS:
        return (*frame, frame_name(node))
    if node.op in EXIT_OPS:
        return frame[:-1]
    return frame


def assign_frames(graph: NodeGraph, supplied: Container[OutputPort] = ()) -> dict[str, FramePath]:
    """{node name: the frame that it runs in}, for every node of a graph.

    `supplied` are ports whose value comes from outside (feeds), into the root frame. A walk from the
    nodes without inputs along every edge, O(nodes + edges). Raises InvalidArgumentError naming the node
    whose inputs come from two frames, or is an Exit or NextIteration outside any. Nodes that no source
    reaches (a cycle without an entry) are left out.
    """
    if _is_straight(graph, supplied):
        return dict.fromkeys(graph.nodes, ())
    consumers: dict[str, list[str]] = {name: [] for name in graph.nodes}
    ready: deque[str] = deque()
    frames: dict[str, FramePath] = {}
    for node in graph:
        sources = {port.node for port in node.inputs if port not in supplied}
        fed = any(port in supplied for port in node.inputs)
        sources.update(node.control_inputs)
        if not sources or fed:
            # A fed value belongs to the root frame, and so then does its consumer.
            frames[node.name] = ()
            ready.append(node.name)
        for source in sources:
            if source in consumers:
                consumers[source].append(node.name)
    while ready:
        name = ready.popleft()
        node = graph.nodes[name]
        frame = frames[name]
        if not frame and node.op in _WITHIN:
            raise InvalidArgumentError(f"{node.op} '{name}' is not inside a loop: no Enter leads to it")
        delivered = output_frame(node, frame)
        for consumer in consumers[name]:
            known = frames.get(consumer)
            if known is None:
                frames[consumer] = delivered
                ready.append(consumer)
            elif known != delivered:
                raise InvalidArgumentError(
                    f"'{consumer}' has inputs from two frames: '{name}' delivers into "
                    f"{describe_frame(delivered)}, another input into {describe_frame(known)}; "
                    "pass the value through Enter or Exit"
                )
    return frames


def _is_straight(graph: NodeGraph, supplied: Container[OutputPort]) -> bool:
    """Whether no node enters or leaves a frame and each comes behind all that it takes: then all nodes run,
    in the root frame. Most graphs are so, and the walk costs ten times as much."""
    seen: set[str] = set()
    for node in graph:
        if node.op in _CROSSING:
            return False
        for port in node.inputs:
            if port.node not in seen and port not in supplied:
                return False
        if node.control_inputs and not seen.issuperset(node.control_inputs):
            return False
        seen.add(node.name)
    return True


def describe_frame(frame: FramePath) -> str:
    return f"frame '{'/'.join(frame)}'" if frame else "the root frame"
