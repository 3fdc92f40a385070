"""Changes of GraphDefs that keep them readable: edges, ops, frames, shapes beside their content."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.tools.fuzz.chance import NUMBERS
from tests.tools.fuzz.extremes import extreme
from tests.tools.fuzz.messages import change

#: Sizes that stand beside a zero without taking any memory.
_LARGE: Final = (1, 3, 2**16, 2**31 - 1, 2**31, 2**32, 2**40)


def _any_node(graph: Any, chance: random.Random) -> Any:
    return chance.choice(graph.node)


def _end(graph: Any, chance: random.Random) -> str:
    """Somewhere an edge may come from; mostly an output that is there."""
    name: str = _any_node(graph, chance).name
    return chance.choice([name, name, name, f"{name}:0", f"{name}:1", f"{name}:7", "nowhere", ""])


def rewire(graph: Any, chance: random.Random) -> None:
    """An input comes from elsewhere: another frame, the other side of a conditional, a later node."""
    node = _any_node(graph, chance)
    if node.input:
        node.input[chance.randrange(len(node.input))] = _end(graph, chance)


def more_edges(graph: Any, chance: random.Random) -> None:
    """An input or a control edge more."""
    node = _any_node(graph, chance)
    end = _end(graph, chance)
    node.input.append(chance.choice([end, f"^{end.partition(':')[0]}", f"^{end.partition(':')[0]}"]))


def fewer_edges(graph: Any, chance: random.Random) -> None:
    node = _any_node(graph, chance)
    if node.input:
        del node.input[chance.randrange(len(node.input))]


def other_op(graph: Any, chance: random.Random) -> None:
    """A node is of another op, of those that stand in the graph or of any."""
    from flowengine.ops.load import registry

    node = _any_node(graph, chance)
    if chance.random() < 0.5:
        node.op = _any_node(graph, chance).op
    else:
        node.op = chance.choice(sorted(registry()))


def twice(graph: Any, chance: random.Random) -> None:
    """A node stands there again, under its name or another."""
    node = _any_node(graph, chance)
    copy = graph.node.add()
    copy.CopyFrom(node)
    if chance.random() < 0.8:
        copy.name += "_again"


def without(graph: Any, chance: random.Random) -> None:
    if len(graph.node) > 1:
        del graph.node[chance.randrange(len(graph.node))]


def renamed(graph: Any, chance: random.Random) -> None:
    """A node has another name, and nobody who uses it was told."""
    _any_node(graph, chance).name = chance.choice(
        ["", "x", _any_node(graph, chance).name, "a/b", "^a", "a:1"]
    )


def other_frame(graph: Any, chance: random.Random) -> None:
    """Enters go into a frame of another name, or wait for as many iterations as never come."""
    enters = [node for node in graph.node if "frame_name" in node.attr]
    if enters:
        node = chance.choice(enters)
        if chance.random() < 0.5:
            node.attr["frame_name"].s = chance.choice([b"", b"other", b"\xff"])
        else:
            node.attr["parallel_iterations"].i = chance.choice(NUMBERS)
            node.attr["is_constant"].b = not node.attr["is_constant"].b


def other_shape(graph: Any, chance: random.Random) -> None:
    """A constant claims another shape than its content has."""
    constants = [node for node in graph.node if node.attr["value"].HasField("tensor")] if graph.node else []
    if not constants:
        return
    shape = chance.choice(constants).attr["value"].tensor.tensor_shape
    if shape.dim and chance.random() < 0.7:
        chance.choice(shape.dim).size = chance.choice(NUMBERS)
    elif shape.dim and chance.random() < 0.5:
        del shape.dim[chance.randrange(len(shape.dim))]
    else:
        shape.dim.add().size = chance.choice(NUMBERS)


def no_elements(graph: Any, chance: random.Random) -> None:
    """A constant has no element, and beside the zero sizes that no memory holds."""
    constants = [node for node in graph.node if node.op == "Const"]
    if not constants:
        return
    tensor = chance.choice(constants).attr["value"].tensor
    dtype = tensor.dtype
    tensor.Clear()
    tensor.dtype = dtype
    sizes = [0, *(chance.choice(_LARGE) for _ in range(chance.choice([0, 1, 1, 2, 3])))]
    chance.shuffle(sizes)
    for size in sizes:
        tensor.tensor_shape.dim.add().size = size


def other_value(graph: Any, chance: random.Random) -> None:
    """A constant's content changes: what steers other ops, such as axes and sizes, among them."""
    constants = [node for node in graph.node if node.op == "Const"]
    if constants:
        change(chance.choice(constants).attr["value"].tensor, chance)


def other_attribute(graph: Any, chance: random.Random) -> None:
    node = _any_node(graph, chance)
    if node.attr:
        change(node.attr[chance.choice(sorted(node.attr))], chance)


def other_device(graph: Any, chance: random.Random) -> None:
    _any_node(graph, chance).device = chance.choice(["/cpu:1", "/gpu:0", "/job:ps/task:3", "nonsense", "/"])


def anything(graph: Any, chance: random.Random) -> None:
    change(graph, chance)


_CHANGES: Final[tuple[Callable[[Any, random.Random], None], ...]] = (
    *(rewire, rewire, rewire, more_edges, fewer_edges, other_op, twice, without, renamed, other_frame),
    *(other_shape, no_elements, other_value, other_value, extreme),
    *(other_attribute, other_attribute, other_device, anything),
)


def light_values(data: bytes, chance: random.Random) -> bytes:
    """A GraphDef whose constants of floating point hold other small numbers: types and shapes stay.

    One that has no such constant has another one twice; without any it is as it was.
    """
    from flowengine.core.dtypes import float32, float64
    from flowengine.ir.graphdef import parse_graph_def

    graph = parse_graph_def(data)
    kinds = {each.number: each.as_numpy_dtype for each in (float32, float64)}
    values = [node.attr["value"].tensor for node in graph.node if node.op == "Const"]
    values = [each for each in values if each.dtype in kinds and each.tensor_content]
    if values:
        tensor = chance.choice(values)
        numbers = np.frombuffer(tensor.tensor_content, kinds[tensor.dtype]).copy()
        place = chance.randrange(len(numbers))
        numbers[place] = chance.choice((numbers[place] * 0.5, numbers[place] * 1.5, abs(numbers[place])))
        tensor.tensor_content = numbers.tobytes()
    else:
        # One in a loop has an input, and could not be fetched.
        constants = [node for node in graph.node if node.op == "Const" and not node.input]
        if constants:
            copy = graph.node.add()
            copy.CopyFrom(chance.choice(constants))
            copy.name += "_again"
    return bytes(graph.SerializeToString(deterministic=True))


def changed_graph(data: bytes, chance: random.Random) -> bytes:
    """A GraphDef with one to four changes, serialised the same way in every process."""
    from flowengine.ir.graphdef import parse_graph_def

    graph = parse_graph_def(data)
    for _ in range(chance.choice([1, 1, 2, 2, 3, 4])):
        if graph.node:
            chance.choice(_CHANGES)(graph, chance)
    return bytes(graph.SerializeToString(deterministic=True))


def changed_values(data: bytes, chance: random.Random) -> bytes:
    """A GraphDef of one node of interest, whose constants and attributes are changed."""
    from flowengine.ir.graphdef import parse_graph_def

    graph = parse_graph_def(data)
    choices = (other_value, other_value, other_shape, no_elements, other_attribute, fewer_edges, extreme)
    for _ in range(chance.choice([0, 1, 1, 1, 2, 3])):
        if graph.node:
            chance.choice(choices)(graph, chance)
    return bytes(graph.SerializeToString(deterministic=True))
