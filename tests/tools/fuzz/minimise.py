"""Making a finding smaller: parts are left out while it brings about the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

#: So many attempts are made, each of them a process.
_ATTEMPTS_MAX: Final = 200


def minimised(kind: str, data: bytes, same: Callable[[bytes], bool]) -> bytes:
    """The smallest input found that is still a finding.

    same   whether an input brings about the same as the given one
    """
    smaller = _smaller_graphs if kind in ("graphs", "calls") else _smaller_bytes
    attempts = 0
    going_on = True
    while going_on:
        going_on = False
        for candidate in smaller(data):
            if attempts == _ATTEMPTS_MAX:
                return data
            attempts += 1
            if same(candidate):
                data, going_on = candidate, True
                break
    return data


def _smaller_graphs(data: bytes) -> Iterator[bytes]:
    """The graph without some of its nodes, the larger parts first, then without attributes."""
    from flowengine.core.errors import InvalidArgumentError
    from flowengine.ir.graphdef import parse_graph_def

    try:
        graph = parse_graph_def(data)
    except InvalidArgumentError:
        yield from _smaller_bytes(data)
        return
    count = len(graph.node)
    size = count // 2
    while size:
        for start in range(0, count, size):
            candidate = type(graph)()
            candidate.CopyFrom(graph)
            del candidate.node[start : start + size]
            if candidate.node:
                yield bytes(candidate.SerializeToString(deterministic=True))
        size //= 2


def _smaller_bytes(data: bytes) -> Iterator[bytes]:
    size = len(data) // 2
    while size:
        for start in range(0, len(data), size):
            yield data[:start] + data[start + size :]
        size //= 2
