"""Snapshots: the values of variables at one moment, shared with them until a step or a file writes one.

`saveables` are variables with their names, `variables` hold the values, `bring` fetches those of devices,
`path` or `prefix` is that of a checkpoint; `make`, `files`, `sync` and `check` are those of the saver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Final

import trio

from flowengine.checkpoint import BundleWriter, V1Writer
from flowengine.checkpoint.elements import Check, never
from flowengine.checkpoint.files import DISK, FileLayer
from flowengine.checkpoint.slices import parse_shape_and_slice
from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError
from flowengine.resources.variable import Variable
from flowengine.train.saveables import Saveable

#: The largest number of names in one message.
_SHOWN_MAX: Final = 10


class Snapshot:
    """A snapshot of values to write; each value is released as soon as it is written.

    Taking one copies nothing: a step that updates a variable meanwhile writes into a copy of it.

    values   pairs of what to save and its value
    step     the global step, if it is known

    >>> graph = fe.Graph()
    >>> w = graph.variable([1.0, 2.0], name="w")
    >>> async def main():
    ...     saver = fe.train.Saver()
    ...     async with fe.Session(graph) as session:
    ...         await session.initialize()
    ...         snapshot = saver.snapshot(session, global_step=7)
    ...         await session.run(w.assign([0.0, 0.0]))
    ...         print(await saver.write(snapshot, "run/model"), saver.names(session))
    ...         print(await saver.restore(session, "run"), await session.run(w))
    >>> trio.run(main)
    run/model-7 ['w']
    ['w'] [1. 2.]

    Its methods raise FailedPreconditionError naming variables without a value, and DataLossError or OSError
    for files that cannot be written.
    """

    def __init__(self, values: Iterable[tuple[Saveable, Value]], step: int | None = None) -> None:
        self._values = deque(values)
        self.step = step
        #: Makes the MetaGraphDef that is written beside it, or None; called on the thread that writes.
        self.meta_graph: Callable[[], bytes | None] = lambda: None
        self._bring: Callable[[Sequence[Value]], Awaitable[Sequence[Value]]] | None = None

    def brought_by(self, bring: Callable[[Sequence[Value]], Awaitable[Sequence[Value]]]) -> None:
        """Set the function `bring`, which copies values from the memory of devices to host memory.

        >>> async def copied(values):
        ...     return [np.array(value) for value in values]
        >>> snapshot = Snapshot([], step=7)
        >>> snapshot.brought_by(copied)
        >>> trio.run(snapshot.bring)
        """
        self._bring = bring

    async def bring(self) -> None:
        """Copy all values to host memory, as `flowengine.train.Snapshot.brought_by` shows.

        Cancelled, it leaves values of devices there.
        """
        bring, values = self._bring, self._values
        if bring is not None:
            found = await bring([value for _, value in values])
            self._values = deque((each, new) for (each, _), new in zip(values, found, strict=True))
            self._bring = None

    @classmethod
    def of(cls, saveables: Sequence[Saveable], variables: Sequence[Variable | None]) -> Snapshot:
        """Return a snapshot of the present values of `variables`; None stands for one that no step has made.

        Raises FailedPreconditionError naming those that have no value, or one that a kernel is writing on
        another thread at this moment (see `settled`).

        >>> Snapshot.of([], []).step is None
        True
        """
        found = list(zip(saveables, variables, strict=True))
        empty = [each.node for each, variable in found if variable is None or not variable.is_initialized]
        if empty:
            raise FailedPreconditionError(
                "variables without a value cannot be saved: call session.initialize() first. Attempting to "
                f"save uninitialized {listed(empty)}"
            )
        busy = [each.node for each, variable in found if variable is not None and variable.writer is not None]
        if busy:
            raise FailedPreconditionError(
                f"a step is writing {listed(busy)}: take the snapshot between steps, or `save`, which waits"
            )
        return cls((each, variable.read()) for each, variable in found if variable is not None)

    def write(
        self,
        prefix: str,
        make: type[BundleWriter] | type[V1Writer] = BundleWriter,
        *,
        sync: bool = True,
        files: FileLayer = DISK,
        check: Check = never,
    ) -> None:
        """Write all values under a prefix, once. An error leaves no file behind."""
        if not self._values:
            raise FailedPreconditionError(
                "this snapshot is empty: it has been written, or there is no variable"
            )
        with make(prefix, sync=sync, files=files, check=check) as writer:
            while self._values:
                saveable, value = self._values.popleft()
                if saveable.spec:
                    shape, part, _ = parse_shape_and_slice(saveable.spec)
                    writer.add_slice(saveable.name, shape, part, value, saveable.dtype)
                else:
                    writer.add(saveable.name, value, saveable.dtype)
                del value


def listed(names: Sequence[str], what: str = "value") -> str:
    """Return a list of names for a message: `values 'a', 'b' and 7 more`."""
    shown = ", ".join(f"'{name}'" for name in names[:_SHOWN_MAX])
    more = f" and {len(names) - _SHOWN_MAX} more" if len(names) > _SHOWN_MAX else ""
    return f"{what}{'s' if len(names) > 1 else ''} {shown}{more}"


async def settled(find: Callable[[], Iterable[Variable]]) -> None:
    """Wait until no kernel on another thread is writing one of the variables."""
    while True:
        busy = next((each for each in find() if each.writer is not None), None)
        if busy is None:
            return
        free = trio.Event()
        busy.wait_free(free.set)
        try:
            await free.wait()
        finally:
            busy.forget(free.set)
