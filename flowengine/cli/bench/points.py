"""The points of a benchmark: a batch size and a number of steps at a time, with the feeds and the times."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from flowengine.cli.failure import BAD_FEED, USAGE, CommandError
from flowengine.cli.feeding.synthetic import synthetic_value
from flowengine.cli.overview import dtype_of, placeholders, shape_of
from flowengine.core import dtypes
from flowengine.core.names import parse_tensor_name
from flowengine.graphs.reading import needed_by
from flowengine.ir.graph import OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


@dataclass(frozen=True, slots=True)
class BenchPoint:
    """A batch size (None: the feeds as they are) and how many steps run at a time."""

    batch: int | None
    concurrency: int


@dataclass(frozen=True, slots=True)
class BenchTimes:
    """The times of a point.

    engine         what has run it, with its version
    latencies_ms   of each step
    seconds        from the start of the first step to the end of the last
    """

    engine: str
    point: BenchPoint
    latencies_ms: Sequence[float]
    seconds: float

    @property
    def steps_per_second(self) -> float:
        """Steps of all tasks together in a second."""
        return len(self.latencies_ms) / self.seconds


def synthetic_feeds(
    graph: Graph, fetches: Iterable[str], fed: Mapping[str, Any], hidden: Iterable[str]
) -> list[str]:
    """List the placeholders that the fetches need and nothing feeds."""
    needed = needed_by(graph, [parse_tensor_name(each)[0] for each in fetches])
    return [
        each.name
        for each in placeholders(graph, frozenset(hidden))
        if each.node in needed and each.name not in fed
    ]


def random_value(graph: Graph, name: str) -> Any:
    """Make up a value for a placeholder: unknown dimensions are 1, floats in [0, 1), integers 0 or 1.

    Raises CommandError (a bad feed) for a placeholder of unknown rank and for strings and resources.
    """
    port = OutputPort(*parse_tensor_name(name))
    dtype, shape = dtype_of(graph, port), shape_of(graph, port)
    what = f"{'?' if dtype is None else dtype} {shape}"
    if shape.dims is None or dtype is None or dtype is dtypes.string or dtype.as_numpy_dtype.hasobject:
        feed = name.removesuffix(":0")
        raise CommandError(f"no value can be made up for {name} ({what}): add --feed {feed}=SOURCE", BAD_FEED)
    return synthetic_value("random", dtype, shape)


def batched(graph: Graph, feeds: Mapping[str, Any], size: int | None) -> dict[str, Any]:
    """Give the feeds a batch size: rows are repeated or left out where the first dimension is free.

    Raises CommandError (usage) if no feed has a free first dimension.
    """
    if size is None:
        return dict(feeds)
    found = dict(feeds)
    free = [name for name, value in feeds.items() if _has_rows(graph, name, value)]
    if not free:
        raise CommandError(f"--batch {size}: no feed has a first dimension that is free", USAGE)
    for name in free:
        value = np.asarray(feeds[name])
        found[name] = value[np.arange(size) % len(value)]
    return found


def _has_rows(graph: Graph, name: str, value: Any) -> bool:
    dims = shape_of(graph, OutputPort(*parse_tensor_name(name))).dims
    shape = np.shape(value)
    return bool(shape) and shape[0] > 0 and (dims is None or dims[0] is None)


__all__ = ["BenchPoint", "BenchTimes", "batched", "random_value", "synthetic_feeds"]
