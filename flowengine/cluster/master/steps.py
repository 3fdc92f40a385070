"""One step at its master: it makes every task run its part, and gathers their ends."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from flowengine.cluster import messages as m
from flowengine.cluster.health import Patience
from flowengine.cluster.master.calls import TaskCalls
from flowengine.cluster.master.plans import MasterPlan, TaskPart
from flowengine.core.arrays import Value
from flowengine.core.errors import CancelledError, InternalError, OpError
from flowengine.runtime.taskless import Cancellable

#: A function that is called with a step that is over, and with its error.
StepDone: TypeAlias = Callable[["MasterStep", BaseException | None], None]


class MasterStep:
    """One step, over the tasks that take part.

        begin: every part ──► each ends ──► done
                                  └─ with an error of its own: the others are abandoned

    The step has ended when every part has, with or without an error. The step's error is the first that does
    not merely report another task's error; if all errors do, it is the first of them.

    patience    the times at which the master checks whether the step waits in vain
    values      the fetched values, once the step is over
    metadata    {task: the metadata that the caller asked for}
    """

    __slots__ = (
        "__weakref__",
        "_calls",
        "_derived",
        "_done",
        "_error",
        "_feeds",
        "_has_given_up",
        "_is_beginning",
        "_is_giving_up",
        "_open",
        "_wants_metadata",
        "metadata",
        "number",
        "patience",
        "plan",
        "values",
    )

    def __init__(
        self,
        calls: TaskCalls,
        plan: MasterPlan,
        number: int,
        feeds: Sequence[Value],
        done: StepDone,
        *,
        wants_metadata: bool,
    ) -> None:
        """`done` is called once, perhaps by `begin`."""
        self._calls = calls
        self.plan = plan
        self.number = number
        self._feeds = feeds
        self._wants_metadata = wants_metadata
        self._done: StepDone | None = done
        self.patience = Patience()
        self.values: list[Any] = [None] * plan.fetches
        self.metadata: dict[str, Any] = {}
        self._error: BaseException | None = None
        self._derived: OpError | None = None
        #: Parts that have not ended; None for a part that has not begun.
        self._open: dict[TaskPart, Cancellable | None] = {}
        self._is_beginning = False
        self._is_giving_up = False
        self._has_given_up = False

    def begin(self) -> None:
        """Make every task run its part."""
        calls, plan, number, still = self._calls, self.plan, self.number, self._open
        self._is_beginning = True
        for part in plan.parts:
            still[part] = None
        for part in plan.parts:
            if part not in still:
                continue  # abandoned before it began, because another part has failed already
            running = calls.begin(
                plan, part, number, self._feeds, self._part_ended, wants_metadata=self._wants_metadata
            )
            if part in still:
                still[part] = running
            else:
                running.cancel()  # without effect, unless the part was abandoned while it began
        calls.members.count(m.RUN_GRAPH, len(plan.parts))
        self._is_beginning = False
        self._finish_if_over()

    def cancel(self) -> None:
        """End the step with CancelledError; without effect on a step that is over."""
        if self._done is None:
            return
        if self._error is None:
            self._error = CancelledError("the caller cancelled the call")
        self._give_up_open()
        self._finish_if_over()

    def _give_up_open(self) -> None:
        """Cancel the running parts, once. Each part reports when it has ended."""
        if self._has_given_up:
            return
        self._has_given_up = self._is_giving_up = True
        for part, running in tuple(self._open.items()):
            if part not in self._open:
                continue  # cancelling the previous one has ended this one as well
            if running is None:
                del self._open[part]
            else:
                running.cancel()
        self._is_giving_up = False

    def _finish_if_over(self) -> None:
        if self._open or self._is_beginning or self._is_giving_up:
            return
        done, self._done = self._done, None
        if done is not None:
            done(self, self._error if self._error is not None else self._derived)

    # -- how parts end ------------------------------------------------------------------------------

    def _part_ended(
        self, part: TaskPart, done: m.StepEnd | None, tensors: list[Any], error: BaseException | None
    ) -> None:
        if part not in self._open:
            return
        del self._open[part]
        if done is m.WELL and not part.fetches:
            if not self._open:
                self._finish_if_over()
            return
        if self._gather(part, done, tensors, error):
            self._give_up_open()
        self._finish_if_over()

    def _gather(
        self, part: TaskPart, done: m.StepEnd | None, tensors: list[Any], error: BaseException | None
    ) -> bool:
        """Keep a part's values or error; return whether the other parts must end because of it."""
        if done is not None and not done.error:
            self._take(part, done, tensors)
            return False
        if done is not None:
            error = m.error_from_table(done.error)
            if done.is_derived:
                self._derived = self._derived or error
                return False
        elif isinstance(error, OpError) and error.device is None and error.node_name is None:
            error.add_note(f"while {part.task} ran its part of the step")
        if self._error is None:
            self._error = error
        # The task that failed has told the others, unless it no longer can.
        return True

    def _take(self, part: TaskPart, done: m.StepEnd, tensors: list[Any]) -> None:
        if len(tensors) != len(part.fetches):
            self._error = InternalError(
                f"{part.task} gave {len(tensors)} values, {len(part.fetches)} were asked for"
            )
            return
        for index, tensor in zip(part.fetches, tensors, strict=True):
            self.values[index] = tensor
        if done.metadata:
            self.metadata[part.task] = done.metadata


__all__ = ["MasterStep", "StepDone"]
