"""Steering values of a kernel at their extremes: each constant, attribute and shape of a graph in turn.

    for what, graph in extremes(data):
        ...                                  # ("axis[0] = 2147483647", the GraphDef with that)

A kernel that loops over a number which its inputs do not bound never ends at 2^31 or 2^40; one that makes a
list of rows takes all memory for 2^40 rows of nothing, which themselves take none.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np

from flowengine.core.dtypes import int32, int64
from flowengine.core.errors import InvalidArgumentError

#: Rows of nothing, nothing of many rows, and both.
SHAPES: Final = ((2**40, 0), (0, 2**40), (2**31, 0, 3))
#: What is greater than any array, in as far as a type holds it.
NUMBERS: Final = (2**31 - 1, 2**31, 2**40)
MANY: Final = 2**40
#: Of so many sizes of a graph each is nothing and each is many.
_SIZES: Final = 5
#: Of a vector of more numbers than these only the first are changed.
_PLACES: Final = 8
#: A constant of more than these elements steers nothing.
_ELEMENTS_MAX: Final = 64
_INTEGERS: Final = (int32.number, int64.number)

#: A place that steers, with how it is changed there.
Change = tuple[str, Callable[[Any], None]]


def extremes(data: bytes) -> Iterator[tuple[str, bytes]]:
    """(what is changed, the GraphDef) for each change, in an order that is always the same."""
    from flowengine.ir.graphdef import parse_graph_def

    graph = parse_graph_def(data)
    for what, change in changes(graph):
        changed = type(graph)()
        changed.CopyFrom(graph)
        change(changed)
        yield what, bytes(changed.SerializeToString(deterministic=True))


def extreme(graph: Any, chance: random.Random) -> None:
    """One of the changes."""
    if found := list(changes(graph)):
        chance.choice(found)[1](graph)


def changes(graph: Any) -> Iterator[Change]:
    """All of them, each of which takes a graph such as this."""
    for place, node in enumerate(graph.node):
        if node.op == "Const":
            yield from _of_constant(node, place)
        else:
            yield from _of_attributes(node, place)
    yield from _of_sizes(graph)


def _of_sizes(graph: Any) -> Iterator[Change]:
    """One size is nothing in all constants that have it, and one dimension, or all of a size, is many."""
    shapes = {place: tuple(dim.size for dim in shape.dim) for place, shape in _shapes(graph)}
    sizes = sorted(set(itertools.chain(*shapes.values())))[:_SIZES]
    for nothing in sizes:
        emptied = {place: _with(shape, {nothing: 0}) for place, shape in shapes.items() if nothing in shape}
        for many in sizes:
            if many != nothing:
                new = {place: _with(shape, {many: MANY}) for place, shape in emptied.items()}
                yield from _early_and_late(f"sizes {nothing} = 0 and {many} = {MANY}", new)
        for place, shape in emptied.items():
            for axis in (axis for axis, size in enumerate(shape) if size):
                new = emptied | {place: (*shape[:axis], MANY, *shape[axis + 1 :])}
                what = f"sizes {nothing} = 0 and axis {axis} of {graph.node[place].name} = {MANY}"
                yield from _early_and_late(what, new)


def _with(shape: tuple[int, ...], sizes: dict[int, int]) -> tuple[int, ...]:
    return tuple(sizes.get(size, size) for size in shape)


def _early_and_late(what: str, shapes: dict[int, tuple[int, ...]]) -> Iterator[Change]:
    yield what, partial(_set_shapes, shapes)
    yield f"{what}, late", partial(_set_shapes_late, shapes)


def _of_constant(node: Any, place: int) -> Iterator[Change]:
    for shape in SHAPES:
        yield f"{node.name} of shape {shape}", partial(_set_shape, place, shape)
        yield (
            f"{node.name} of shape {shape}, late",
            partial(_set_late, place, partial(_set_shape, place, shape)),
        )
    values = _integers(node.attr["value"].tensor)
    for at in range(min(values.size, _PLACES)):
        for number in NUMBERS:
            if number <= np.iinfo(values.dtype).max:
                what = f"{node.name}[{at}] = {number}"
                change = partial(_set_number, place, at, number)
                yield what, change
                yield f"{what}, late", partial(_set_late, place, change)


def _of_attributes(node: Any, place: int) -> Iterator[Change]:
    for name in sorted(node.attr):
        value = node.attr[name]
        what = f"{node.name}.{name}"
        kind = value.WhichOneof("value")
        if kind == "i":
            for number in NUMBERS:
                yield f"{what} = {number}", partial(_set_attribute, place, name, number)
        elif kind == "shape":
            for shape in (*SHAPES, (2**31,), (2**40, 1)):
                yield f"{what} = {shape}", partial(_set_attribute_shape, place, name, None, shape)
        elif kind == "list":
            for at in range(min(len(value.list.i), _PLACES)):
                for number in NUMBERS:
                    yield f"{what}[{at}] = {number}", partial(_set_listed, place, name, at, number)
            for at in range(min(len(value.list.shape), _PLACES)):
                for shape in (*SHAPES, (2**31,)):
                    yield f"{what}[{at}] = {shape}", partial(_set_attribute_shape, place, name, at, shape)


def _integers(tensor: Any) -> Any:
    """The elements of a constant of int32 or int64; none for another."""
    from flowengine.core.arrays import to_array
    from flowengine.ir.tensorproto import decode_tensor

    count = math.prod(dim.size for dim in tensor.tensor_shape.dim)
    if tensor.dtype not in _INTEGERS or not 0 < count <= _ELEMENTS_MAX:
        return np.empty(0, np.int64)
    try:
        return np.array(to_array(decode_tensor(tensor))).reshape(-1)
    except InvalidArgumentError:  # its content has been changed already
        return np.empty(0, np.int64)


def _set_shape(place: int, shape: tuple[int, ...], graph: Any) -> None:
    tensor = graph.node[place].attr["value"].tensor
    dtype = tensor.dtype
    tensor.Clear()
    tensor.dtype = dtype
    for size in shape:
        tensor.tensor_shape.dim.add().size = size


def _shapes(graph: Any) -> Iterator[tuple[int, Any]]:
    """(place, shape) of each constant that is no scalar."""
    for place, node in enumerate(graph.node):
        if node.op == "Const" and node.attr["value"].tensor.tensor_shape.dim:
            yield place, node.attr["value"].tensor.tensor_shape


def _set_shapes(shapes: dict[int, tuple[int, ...]], graph: Any) -> None:
    for place, shape in shapes.items():
        _set_shape(place, shape, graph)


def _set_shapes_late(shapes: dict[int, tuple[int, ...]], graph: Any) -> None:
    _set_shapes(shapes, graph)
    for place, _ in list(_shapes(graph)):
        _make_late(place, graph)


def _set_number(place: int, at: int, number: int, graph: Any) -> None:
    tensor = graph.node[place].attr["value"].tensor
    values = _integers(tensor)
    values[at] = number
    tensor.ClearField("int_val")
    tensor.ClearField("int64_val")
    tensor.tensor_content = values.tobytes()


def _set_late(place: int, change: Callable[[Any], None], graph: Any) -> None:
    change(graph)
    _make_late(place, graph)


def _make_late(place: int, graph: Any) -> None:
    """No shape function and no pass sees a constant any more: what is fed by default is known in the step."""
    constant = graph.node[place]
    name = constant.name
    constant.name = f"{name}/default"
    late = graph.node.add()
    late.name = name
    late.op = "PlaceholderWithDefault"
    late.input.append(constant.name)
    late.attr["dtype"].type = constant.attr["dtype"].type
    late.attr["shape"].shape.unknown_rank = True


def _set_attribute(place: int, name: str, number: int, graph: Any) -> None:
    graph.node[place].attr[name].i = number


def _set_listed(place: int, name: str, at: int, number: int, graph: Any) -> None:
    graph.node[place].attr[name].list.i[at] = number


def _set_attribute_shape(place: int, name: str, at: int | None, shape: tuple[int, ...], graph: Any) -> None:
    value = graph.node[place].attr[name]
    target = value.shape if at is None else value.list.shape[at]
    target.Clear()
    for size in shape:
        target.dim.add().size = size


__all__ = ["NUMBERS", "SHAPES", "changes", "extreme", "extremes"]
