"""Requests to a graph that this process has not read: names, and what the box says that they mean.

The box may say anything. Dtypes are those that there are, shapes are shapes, and what comes back from a step
has the dtype and shape that was said, one value for each name; anything else is an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from flowengine.core.dtypes import DType, as_dtype, resource, string, variant
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import NodeGraph
from flowengine.runtime.planning.fetches import name_of
from flowengine.runtime.planning.values import FeedSpec, FetchSpec
from flowengine.sandbox import messages as w
from flowengine.transport.calls.templates import fixed_call
from flowengine.transport.errors import RemoteProtocolError


class AskedNames:
    """One combination of feeds, fetches and targets, by name.

    as_values   whether a bare name of a fetch means the node's first output
    slots       of each leaf of the fetches the index of its name in `fetches`; -1 for None
    """

    def __init__(
        self,
        graph: NodeGraph,
        leaves: Sequence[Any],
        feeds: Sequence[Any],
        targets: Sequence[Any],
        *,
        as_values: bool = False,
    ) -> None:
        names: dict[str, int] = {}
        self.slots = [
            -1 if leaf is None else names.setdefault(name_of(graph, leaf), len(names)) for leaf in leaves
        ]
        self.feeds = [name_of(graph, each) for each in feeds]
        self.fetches = list(names)
        self.targets = [name_of(graph, each) for each in targets]
        self._as_values = as_values
        self.key = tuple(self.feeds), tuple(self.fetches), tuple(self.targets), as_values

    def message(self) -> w.BoxPrepare:
        """Return the message that asks the box to prepare these names."""
        return w.BoxPrepare(self.feeds, self.fetches, self.targets, self._as_values)


class BoxRequest:
    """The box's description of a request, as far as it can be trusted.

    plain_step   the call of a step without feeds
    dtypes       NumPy's, of the values that come back
    Raises RemoteProtocolError where it makes no sense.
    """

    def __init__(self, asked: AskedNames, said: w.BoxMeaning, seconds: float) -> None:
        """`seconds`: what a plain step may take."""
        if len(said.feeds) != len(asked.feeds) or len(said.positions) != len(asked.fetches):
            raise RemoteProtocolError("the sandbox speaks of other tensors than it was asked for")
        if not all(-1 <= each < len(said.fetches) for each in said.positions):
            raise RemoteProtocolError("the sandbox speaks of values that there are none of")
        self.number = said.number
        self.plain_step = fixed_call(w.RUN, w.BoxRun(said.number, seconds).to_wire())
        self.feeds = [
            FeedSpec(name, _dtype(entry), _shape(entry))
            for name, entry in zip(asked.feeds, said.feeds, strict=True)
        ]
        self._dtypes = [_dtype(entry) for entry in said.fetches]
        self.dtypes = [each.as_numpy_dtype for each in self._dtypes]
        self._specs = [FetchSpec("", dtype) for dtype in self._dtypes]
        self._positions = said.positions

    def values(self, results: list[Any]) -> list[Any]:
        """Return the caller's value for each name; RemoteProtocolError if the box returned another."""
        if len(results) != len(self._dtypes):
            raise RemoteProtocolError(f"the sandbox gave {len(results)} values for {len(self._dtypes)}")
        # Only the list may hold the values, or they are copied once more before they are handed out.
        for index, dtype in enumerate(self._dtypes):
            if not _is_of(results[index], dtype):
                raise RemoteProtocolError(f"the sandbox gave something else than a tensor of {dtype.name}")
        owned = [spec.convert(results, index) for index, spec in enumerate(self._specs)]
        return [None if each < 0 else owned[each] for each in self._positions]


def _is_of(value: Any, dtype: DType) -> bool:
    if not isinstance(value, np.ndarray | np.generic):
        return dtype == string and isinstance(value, bytes)
    if dtype == string and isinstance(value, np.ndarray):
        return value.dtype == np.dtype(object) and all(isinstance(each, bytes) for each in value.flat)
    return bool(value.dtype == dtype.as_numpy_dtype)


def _dtype(entry: Any) -> DType:
    try:
        dtype = as_dtype(str(entry.get("dtype"))).base
    except (OpError, TypeError, ValueError):
        raise RemoteProtocolError("the sandbox speaks of a dtype that there is not") from None
    if dtype in (resource, variant):
        raise InvalidArgumentError(
            f"a {dtype.name} can neither be fed to a sandbox nor fetched from it: it means nothing outside"
        )
    return dtype


def _shape(entry: Any) -> TensorShape:
    dims = entry.get("dims")
    if dims is None:
        return TensorShape(None)
    sizes = dims if isinstance(dims, list) else [-1]
    if not all(each is None or (type(each) is int and each >= 0) for each in sizes):
        raise RemoteProtocolError("the sandbox speaks of a shape that is none")
    return TensorShape(sizes)


__all__ = ["AskedNames", "BoxRequest"]
