"""The events of a part of a step as bytes, which another process has recorded: JSON, compressed by zlib.

Long traces come in several chunks, so that writing one never stops the event loop for long.
"""

from __future__ import annotations

import json
import math
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.work_pieces import Pieces
from flowengine.runtime.tracing.events import TraceEvent

#: The events of a chunk: encoding them takes about 5 ms.
_CHUNK_EVENTS: Final = 1000
#: The largest chunk that is read. A chunk of events with long names takes less than one MiB.
_CHUNK_BYTES_MAX: Final = 64 << 20

_TEXTS: Final = slice(0, 5)
_NUMBERS: Final = slice(5, 7)
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


def decoded(chunks: Iterable[bytes]) -> Iterator[TraceEvent]:
    """Yield the events of chunks. Raises InvalidArgumentError for other bytes."""
    for chunk in chunks:
        try:
            reader = zlib.decompressobj()
            text = reader.decompress(chunk, _CHUNK_BYTES_MAX)
            if reader.unconsumed_tail:
                raise ValueError(f"a chunk has more than {_CHUNK_BYTES_MAX} bytes")
            events = [_event(row) for row in json.loads(text)]
        except (zlib.error, ValueError, TypeError, KeyError, OverflowError, RecursionError) as error:
            raise InvalidArgumentError(f"these are no events of a trace: {error}") from None
        yield from events


def _event(row: Any) -> TraceEvent:
    if type(row) is not list or len(row) != 13:
        raise ValueError("an event has 13 fields")
    ready, tag, members, outputs, line, detail = row[7:]
    if not (
        all(type(each) is str for each in (*row[_TEXTS], line, *members))
        and all(type(each) in (int, float) for each in row[_NUMBERS])
        and (ready is None or type(ready) in (int, float))
        and type(detail) is dict
        and all(map(math.isfinite, row[_NUMBERS]))
        and (ready is None or math.isfinite(ready))
        and all(type(detail.get(each)) is str for each in _DETAILS.get(row[0], ()))
        and type(detail.get("waits_for", "")) is str
    ):
        raise ValueError(f"an event has fields of other types: {row!r:.200}")
    kind, name, op, device, thread, began, ended = row[:7]
    return TraceEvent(
        kind=kind,
        name=name,
        op=op,
        device=device,
        thread=thread,
        began=began,
        ended=ended,
        ready=ready,
        tag=tuple((str(frame), int(number)) for frame, number in tag),
        members=tuple(members),
        outputs=tuple(None if each is None else _output(*each) for each in outputs),
        line=line,
        detail=detail,
    )


def _output(dtype: Any, shape: Any, size: Any) -> tuple[str, tuple[int, ...], int]:
    return str(dtype), tuple(map(int, shape)), int(size)


__all__ = ["decoded", "encoded"]
