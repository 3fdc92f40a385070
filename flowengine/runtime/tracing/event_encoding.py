"""The events of a part of a step as bytes, which another process has recorded: JSON, compressed by zlib.

Long traces come in several chunks, so that writing one never stops the event loop for long.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Sequence
from math import isfinite
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.runtime.tracing.events import TraceEvent

#: The events of a chunk: encoding them takes about 5 ms.
_CHUNK_EVENTS: Final = 1000
#: The largest chunk that is read. A chunk of events with long names takes less than one MiB.
_CHUNK_BYTES_MAX: Final = 64 << 20

_REAL: Final = (float, int)
#: {kind: the details without which nothing can be read of it}
_DETAILS: Final = {"send": ("edge", "to"), "recv": ("edge", "to"), "node": ("block",)}


def encoded(events: Sequence[TraceEvent]) -> Pieces[list[bytes]]:
    """Encode events, in pieces; returns the chunks."""
    chunks = []
    for first in range(0, len(events), _CHUNK_EVENTS):
        rows = [_row(event) for event in events[first : first + _CHUNK_EVENTS]]
        # Level 1 is three times as fast as the usual one and does nearly as well, because names repeat.
        chunks.append(zlib.compress(json.dumps(rows, default=str).encode(), 1))
        yield
    return chunks


def _row(event: TraceEvent) -> list[Any]:
    return [
        event.kind,
        event.name,
        event.op,
        event.device,
        event.thread,
        event.began,
        event.ended,
        event.ready,
        event.tag,
        event.members,
        event.outputs,
        event.line,
        event.detail,
    ]


def decoded(chunk: bytes) -> list[TraceEvent]:
    """Return the events of a chunk. Raises InvalidArgumentError for other bytes."""
    try:
        reader = zlib.decompressobj()
        text = reader.decompress(chunk, _CHUNK_BYTES_MAX)
        if reader.unconsumed_tail:
            raise ValueError(f"a chunk has more than {_CHUNK_BYTES_MAX} bytes")
        return [_event(*row) for row in json.loads(text)]
    except (zlib.error, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(f"these are no events of a trace: {error}") from None


def _event(
    kind: Any,
    name: Any,
    op: Any,
    device: Any,
    thread: Any,
    began: Any,
    ended: Any,
    ready: Any,
    tag: Any,
    members: Any,
    outputs: Any,
    line: Any,
    detail: Any,
) -> TraceEvent:
    if not (
        type(kind) is type(name) is type(op) is type(device) is type(thread) is type(line) is str
        and type(began) in _REAL
        and type(ended) in _REAL
        and isfinite(began)
        and isfinite(ended)
        and (ready is None or (type(ready) in _REAL and isfinite(ready)))
        and type(detail) is dict
        and (not members or all(type(each) is str for each in members))
        and (not detail or type(detail.get("waits_for", "")) is type(detail.get("from", "")) is str)
        and (kind not in _DETAILS or all(type(detail.get(each)) is str for each in _DETAILS[kind]))
    ):
        raise ValueError(f"a {kind!r:.100} has fields of other types")
    return TraceEvent(
        kind,
        name,
        op,
        device,
        thread,
        began,
        ended,
        ready,
        tuple([(str(frame), int(number)) for frame, number in tag]),
        tuple(members),
        tuple([None if each is None else _output(*each) for each in outputs]),
        line,
        detail,
    )


def _output(dtype: Any, shape: Any, size: Any) -> tuple[str, tuple[int, ...], int]:
    return str(dtype), tuple(map(int, shape)), int(size)


__all__ = ["decoded", "encoded"]
