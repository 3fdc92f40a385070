"""Metadata of a step: its time, its memory, its transfers, and the timeline of devices.

    metadata = fe.RunMetadata(launches=[])
    await session.run(fetches, feeds, run_metadata=metadata)
    pathlib.Path("step.json").write_text(metadata.timeline())

Nothing of it is recorded for a step without it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from flowengine.devices.launch_record import LaunchRecord


@dataclass(slots=True)
class RunMetadata:
    """Filled in by `Session.run(..., run_metadata=...)` when the step has ended.

    wall_seconds   from the start of the step to its end
    items          nodes of the plan, executed or found dead (loop bodies counted once)
    heavy_items    kernels that ran on a worker thread
    async_items    kernels that had to wait in a trio task
    peak_bytes     most bytes of tensors alive at once; counted only under a limit or `count_allocations`
    allocations    the number of new tensors, without those written in place or only viewed; likewise
    devices        {name of a device that took part: the same for its memory, variables included}
    transfers      {"edge -> device": (number of tensors sent there, their total bytes)}
    bytes_saved    the sent bytes that lossy compression saved
    launches       the work of devices with streams, in order, if the device records it; only into a list
                   that you give: `RunMetadata(launches=[])`
    details        other facts of the step by name

    >>> graph = fe.Graph()
    >>> y = fe.matmul(fe.ones([2, 2], graph=graph), fe.ones([2, 2], graph=graph))
    >>> metadata = fe.RunMetadata()
    >>> with fe.blocking.Session(graph, config=fe.Config(fold_constants=False)) as session:
    ...     value = session.run(y, run_metadata=metadata)
    >>> metadata.items, metadata.timeline()
    (1, '{"traceEvents": []}')
    """

    wall_seconds: float = 0.0
    items: int = 0
    heavy_items: int = 0
    async_items: int = 0
    peak_bytes: int | None = None
    allocations: int | None = None
    devices: dict[str, int | None] = field(default_factory=dict)
    transfers: dict[str, tuple[int, int]] = field(default_factory=dict)
    bytes_saved: int = 0
    launches: list[LaunchRecord] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    def timeline(self) -> str:
        """Return `launches` as Trace Event JSON, for Perfetto or chrome://tracing.

        One process for each device, one thread for each stream, times in microseconds.
        """
        return _timeline(self.launches or ())

    def _repr_html_(self) -> str:
        """Return a row for each known value."""
        from flowengine.core import html

        named = ((each.name, getattr(self, each.name)) for each in fields(self))
        return html.table((name, value) for name, value in named if value not in (None, {}))


def _timeline(launches: Sequence[LaunchRecord]) -> str:
    start = min((each.began for each in launches), default=0.0)
    devices = {name: index for index, name in enumerate(dict.fromkeys(each.device for each in launches))}
    lanes = {lane: index for index, lane in enumerate(dict.fromkeys((e.device, e.stream) for e in launches))}
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        for name, pid in devices.items()
    ]
    events += [
        {"ph": "M", "name": "thread_name", "pid": devices[device], "tid": tid, "args": {"name": stream}}
        for (device, stream), tid in lanes.items()
    ]
    events += [
        {
            "ph": "X",
            "name": each.node or each.what,
            "cat": each.what,
            "pid": devices[each.device],
            "tid": lanes[each.device, each.stream],
            "ts": 1e6 * (each.began - start),
            "dur": 1e6 * (each.ended - each.began),
        }
        for each in launches
    ]
    return json.dumps({"traceEvents": events})


__all__ = ["RunMetadata"]
