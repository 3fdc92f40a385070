"""Metadata of a step: its time, its memory, its transfers, and its events.

    metadata = fe.RunMetadata()
    await session.run(fetches, feeds, options=fe.RunOptions(trace="nodes"), run_metadata=metadata)
    pathlib.Path("step.json").write_text(metadata.timeline())

Nothing of it is recorded for a step without it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.run_options import RunOptions
from flowengine.devices.launch_record import LaunchRecord
from flowengine.runtime.tracing.events import TraceEvent, events_of_devices
from flowengine.runtime.tracing.joint_trace import JointTrace, TracedTask
from flowengine.runtime.tracing.recorder import Recorder

if TYPE_CHECKING:
    from flowengine.runtime.tracing.profile import ProfileBy, StepProfile


@dataclass(slots=True)
class RunMetadata:
    """Filled in by `Session.run(..., run_metadata=...)` when the step has ended.

    wall_seconds   from the start of the step to its end
    admission_seconds   before that, while other steps ran: see `Config(max_steps=)`
    items          nodes of the plan, executed or found dead (loop bodies counted once)
    heavy_items    kernels that ran on a worker thread
    async_items    kernels that had to wait in a trio task
    peak_bytes     most bytes of tensors alive at once; counted only under a limit or `count_allocations`
    allocations    the number of new tensors, without those written in place or only viewed; likewise
    peak_holders   {node: bytes} of the tensors that were alive at that moment, the largest first; likewise
    devices        {name of a device that took part: the same for its memory, variables included}
    transfers      {"edge -> device": (number of tensors sent there, their total bytes)}
    bytes_saved    the sent bytes that lossy compression saved
    launches       the work of devices with streams, in the order in which it was done, of those that can
                   tell; recorded if there is a list for it, `RunMetadata(launches=[])`
    trace          the raw record of a traced step, of which `events` are made
    details        {task of a cluster: the counts of its part of the step}

    >>> graph = fe.Graph()
    >>> y = fe.matmul(fe.ones([2, 2], graph=graph), fe.ones([2, 2], graph=graph))
    >>> metadata = fe.RunMetadata()
    >>> with fe.blocking.Session(graph, config=fe.Config(fold_constants=False)) as session:
    ...     value = session.run(y, options=fe.RunOptions(trace="nodes"), run_metadata=metadata)
    >>> [entry.name for entry in metadata.profile().entries if entry.name == "MatMul"]
    ['MatMul']
    """

    wall_seconds: float = 0.0
    admission_seconds: float = 0.0
    items: int = 0
    heavy_items: int = 0
    async_items: int = 0
    peak_bytes: int | None = None
    allocations: int | None = None
    peak_holders: dict[str, int] = field(default_factory=dict)
    devices: dict[str, int | None] = field(default_factory=dict)
    transfers: dict[str, tuple[int, int]] = field(default_factory=dict)
    bytes_saved: int = 0
    launches: list[LaunchRecord] | None = None
    details: dict[str, Any] = field(default_factory=dict)
    trace: Recorder | JointTrace | None = field(default=None, repr=False)

    @property
    def events(self) -> tuple[TraceEvent, ...]:
        """Return the events of a step that ran with `RunOptions(trace=...)`, in order of their beginning.

        Of a step that failed, was cancelled or lost a task, those up to then. Of a step without a trace, the
        work of its devices with streams, if `launches` is a list.
        """
        if self.trace is None:
            return events_of_devices(self.launches or ())
        return self.trace.events(self.launches or ())

    @property
    def dropped_events(self) -> int:
        """Return the number of events beyond `RunOptions(trace_events=)`, which were not kept."""
        return 0 if self.trace is None else self.trace.dropped

    @property
    def traced_tasks(self) -> dict[str, TracedTask]:
        """Return {name of a task: its part} of a step that was traced over the tasks of a cluster.

        It says how each part ended, and how far the times of its events may be off. Empty for other steps.
        """
        return self.trace.tasks if isinstance(self.trace, JointTrace) else {}

    def timeline(self) -> str:
        """Return the events as Trace Event JSON, for Perfetto or chrome://tracing.

        One process for each task, one track for each thread and stream, tracks of their own for waits and
        for work that no thread does, an arrow for each transfer; times in microseconds.

        >>> fe.RunMetadata().timeline()
        '{"traceEvents": [], "displayTimeUnit": "ms"}'
        """
        from flowengine.runtime.tracing.timeline import timeline

        return timeline(self.events, self.dropped_events, self.traced_tasks)

    def step_stats(self) -> bytes:
        """Return the times of the nodes as a serialized `RunMetadata` of TensorFlow.

        TensorBoard's graph page shows it, and `tensorflow.python.client.timeline` reads it. Raises
        FailedPreconditionError for a step without a trace.

        >>> graph = fe.Graph()
        >>> y = fe.tanh(graph.placeholder("float32", [2], name="x"), name="y")
        >>> metadata, options = fe.RunMetadata(), fe.RunOptions(trace="nodes")
        >>> with fe.blocking.Session(graph) as session:
        ...     value = session.run(y, {"x:0": [1.0, 2.0]}, options=options, run_metadata=metadata)
        >>> b"y = Tanh()" in metadata.step_stats()
        True
        """
        from flowengine.runtime.tracing.step_stats import step_stats

        trace = self._traced()
        return step_stats(trace.events(self.launches or ()), trace.epoch).SerializeToString()

    def profile(self, by: ProfileBy = "op") -> StepProfile:
        """Return the time of the step by op, node, scope or line of the program that built the node.

        Needs a step that ran with `RunOptions(trace=...)`; with "blocks", a block is one entry. Raises
        FailedPreconditionError for another step, InvalidArgumentError for another word.

        >>> graph = fe.Graph()
        >>> y = fe.tanh(graph.placeholder("float32", [2], name="x"), name="layer/y")
        >>> metadata, options = fe.RunMetadata(), fe.RunOptions(trace="nodes")
        >>> with fe.blocking.Session(graph) as session:
        ...     value = session.run(y, {"x:0": [1.0, 2.0]}, options=options, run_metadata=metadata)
        >>> [entry.name for entry in metadata.profile("scope").entries]
        ['layer']
        """
        from flowengine.runtime.tracing.profile import profile_of

        return profile_of(self._traced().events(self.launches or ()), by)

    def _traced(self) -> Recorder | JointTrace:
        if self.trace is None:
            raise FailedPreconditionError(
                'this step was not traced: run it with options=fe.RunOptions(trace="nodes")'
            )
        return self.trace

    def _repr_html_(self) -> str:
        """Return a row for each known value; of a traced step, its profile, too."""
        from flowengine.core import html

        left_out = {"trace", "peak_holders"}
        named = ((each.name, getattr(self, each.name)) for each in fields(self) if each.name not in left_out)
        table = html.table((name, value) for name, value in named if value not in (None, {}, []))
        return table if self.trace is None else table + self.profile()._repr_html_()


def check_metadata(options: RunOptions, metadata: RunMetadata | None) -> None:
    """Raise InvalidArgumentError for a trace without a `RunMetadata` to fill."""
    if options.trace is not None and metadata is None:
        raise InvalidArgumentError(
            f"trace={options.trace!r} fills the events of a RunMetadata, and there is none: give "
            "`run_metadata=fe.RunMetadata()`, too"
        )


def recorder_of(
    options: RunOptions | None, metadata: RunMetadata | None, waited: float, device: str
) -> Recorder | None:
    """Return the recorder of a step that asks for a trace, which fills its metadata; else None.

    waited   the seconds that planning and admission have taken

    Raises InvalidArgumentError for a trace without a `RunMetadata` to fill.
    """
    if options is None or options.trace is None:
        return None
    check_metadata(options, metadata)
    assert metadata is not None, "it was checked"
    recorder = Recorder(options.trace_events, has_nodes=options.trace == "nodes")
    recorder.begin_earlier(waited, metadata.admission_seconds, device)
    metadata.trace = recorder
    if metadata.launches is None:
        metadata.launches = []
    return recorder


def record_refusal(options: RunOptions | None, metadata: RunMetadata) -> None:
    """Give a step that waited for admission, and did not begin, a trace with this wait if it asks for one."""
    if options is not None and options.trace is not None:
        recorder = Recorder(options.trace_events, has_nodes=False)
        recorder.refuse(metadata.admission_seconds)
        metadata.trace = recorder


__all__ = ["RunMetadata", "check_metadata", "record_refusal", "recorder_of"]
