"""Records a step of a session: every node by itself, nothing folded, merged or claimed.

A session of this process shows the values of its nodes while the step runs. One at a target or in a sandbox
cannot: there, every tensor outside of loops and branches is fetched.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final

from flowengine.core.config import Config
from flowengine.core.errors import FailedPreconditionError
from flowengine.core.run_options import RunOptions
from flowengine.graphs.graph import Graph
from flowengine.graphs.reading import conditional_nodes
from flowengine.ir.graph import NodeGraph
from flowengine.tools.compare.graphs import constants_in, dependences, opened, unused_in, variables_in
from flowengine.tools.compare.records import StepRecord
from flowengine.tools.compare.tensors import TensorRecord, record_of

if TYPE_CHECKING:
    from flowengine.session import Session

#: Bytes of whole values that a record keeps by default.
VALUE_BYTES: Final = 1 << 29
#: Tensors of a record: a loop of a thousand iterations over a thousand nodes.
TENSORS_MAX: Final = 1_000_000


def plain_config(config: Config | None = None) -> Config:
    """Return the settings with which every node runs by itself.

    >>> from flowengine.tools.compare import plain_config
    >>> plain_config(fe.Config(max_steps=1)).fold_constants
    False
    """
    return replace(
        config or Config(),
        fold_constants=False,
        merge_common_subexpressions=False,
        fuse_elementwise=False,
        fuse_contractions=False,
        fold_batch_norms=False,
        compile_hot_plans=False,
    )


class StepRecorder:
    """The values of one step, as they come: `RunOptions(observe=recorder.observe)`.

    keep          patterns of the names of tensors whose whole values are kept
    value_bytes   whole values that are kept beside them, of the first tensors that fit
    """

    def __init__(
        self, *, keep: Sequence[str] = (), value_bytes: int = 0, tensors_max: int = TENSORS_MAX
    ) -> None:
        self.dropped = 0
        self.tensors: list[TensorRecord] = []
        self._keep = tuple(keep)
        self._bytes_left = value_bytes
        self._tensors_max = tensors_max
        self._sources: set[str] = set()
        self._calls: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()  # kernels on threads show their values there

    def observe(self, node: str, tag: Sequence[tuple[str, int]], outputs: Sequence[Any]) -> None:
        """Record the outputs of a node that has run."""
        iteration = ", ".join(f"{frame}={number}" for frame, number in tag)
        for slot, value in enumerate(outputs):
            if value is not None and (iteration or f"{node}:{slot}" not in self._sources):
                self.add(f"{node}:{slot}", value, iteration)

    def add_source(self, name: str, value: Any, *, is_kept: bool = False) -> None:
        """Record a value that is there before the step: the node that gives it makes no other."""
        self._sources.add(name)
        self.add(name, value, is_kept=is_kept)

    def add(self, name: str, value: Any, iteration: str = "", *, is_kept: bool = False) -> None:
        """Record one tensor; a second value of one iteration is that of another call."""
        with self._lock:
            if len(self.tensors) >= self._tensors_max:
                self.dropped += 1
                return
            self._calls[name, iteration] += 1
            if (call := self._calls[name, iteration]) > 1:
                iteration = f"{iteration}, call={call}".removeprefix(", ")
            size = int(getattr(value, "nbytes", 0))
            keeps = is_kept or any(fnmatchcase(name, pattern) for pattern in self._keep)
            if not keeps and 0 < size <= self._bytes_left:
                self._bytes_left -= size
                keeps = True
        made = record_of(name, iteration, value, is_kept=keeps)
        with self._lock:
            self.tensors.append(made)


async def record_step(
    session: Session,
    fetches: Sequence[str],
    feed_dict: Mapping[str, Any] | None = None,
    *,
    targets: Sequence[str] = (),
    keep: Sequence[str] = (),
    value_bytes: int = VALUE_BYTES,
    steps: int = 1,
    timeout_seconds: float | None = None,
) -> tuple[list[Any], StepRecord]:
    """Run one step and return the values of `fetches`, and the record of all that the step has made.

    fetches, feed_dict, targets   as for `Session.run`, by names: "node:slot"
    keep          patterns of the names of tensors whose whole values the record keeps
    value_bytes   whole values that it keeps beside them, until so many bytes are full
    steps         the number of steps that will have run in the session

    Open the session with `plain_config()`, or nodes are missing that the passes have replaced. Raises what
    the step raises; trio.Cancelled leaves the session usable, and no record.

    >>> from flowengine.tools.compare import plain_config, record_step
    >>> graph = fe.Graph()
    >>> x = graph.placeholder("float32", [2], name="x")
    >>> y = graph.ops.Exp(graph.ops.Neg(x, name="n"), name="y")
    >>> async def main():
    ...     async with fe.Session(graph, config=plain_config()) as session:
    ...         _, record = await record_step(session, ["y:0"], {"x:0": [0.0, 1.0]})
    ...         print([str(tensor) for tensor in record.tensors], record.tensors[1].figures[0])
    >>> trio.run(main)
    ['x:0', 'n:0', 'y:0'] -1.0
    """
    graph = session.graph
    assert isinstance(graph, Graph)
    running, feeds = opened(graph, fetches, feed_dict or {}, targets, session.config)
    recorder = StepRecorder(keep=keep, value_bytes=value_bytes)
    for name, value in constants_in(running, feeds):
        recorder.add_source(name, value)
    for name, value in await _variables(session, variables_in(running, graph, feeds), feeds, timeout_seconds):
        recorder.add_source(name, value)
    for name, value in feeds.items():
        recorder.add_source(name, value, is_kept=True)
    if session.elsewhere is None:
        options = RunOptions(timeout_seconds=timeout_seconds, observe=recorder.observe)
        values = list(await session.run(list(fetches), feeds, targets=list(targets), options=options))
    else:
        values = await _fetch_all(session, running, recorder, fetches, feeds, targets, timeout_seconds)
    known = {tensor.name for tensor in recorder.tensors}
    for name, value in zip(fetches, values, strict=True):
        if name not in known and value is not None:
            recorder.add(name, value)
    unused = unused_in(running, fetches)
    kept = [tensor for tensor in recorder.tensors if tensor.name not in unused]
    tensors, nodes = dependences(running, kept, feeds)
    return values, StepRecord(tensors, nodes, steps, recorder.dropped)


async def _variables(
    session: Session, names: Mapping[str, str], feeds: Mapping[str, Any], timeout_seconds: float | None
) -> list[tuple[str, Any]]:
    """Return the values of variables before the step, of those that have one.

    names   {variable: the tensor with its value}
    """
    if not names:
        return []
    options = RunOptions(timeout_seconds=timeout_seconds)
    tensors = list(names.values())
    try:
        return [*zip(names, await session.run(tensors, feeds, options=options), strict=True)]
    except FailedPreconditionError:
        found = []
        for name, tensor in names.items():
            try:
                found.append((name, await session.run(tensor, feeds, options=options)))
            except FailedPreconditionError:
                continue  # the step itself gives it a value, or says that it has none
        return found


async def _fetch_all(
    session: Session,
    running: NodeGraph,
    recorder: StepRecorder,
    fetches: Sequence[str],
    feeds: Mapping[str, Any],
    targets: Sequence[str],
    timeout_seconds: float | None,
) -> list[Any]:
    """Run the step at its target with every tensor fetched that is live in any case."""
    hidden = conditional_nodes(session.graph)
    known = {tensor.name for tensor in recorder.tensors}
    names = [
        name
        for node in running
        if node.name in session.graph and node.name not in hidden
        for slot, dtype in enumerate(node.output_types)
        if not dtype.is_ref and dtype.name not in ("resource", "variant")
        if (name := f"{node.name}:{slot}") not in known
    ]
    values = await session.run(
        [*fetches, *names], feeds, targets=list(targets), options=RunOptions(timeout_seconds=timeout_seconds)
    )
    for name, value in zip(names, values[len(fetches) :], strict=True):
        recorder.add(name, value)
    return list(values[: len(fetches)])


__all__ = ["StepRecorder", "plain_config", "record_step"]
