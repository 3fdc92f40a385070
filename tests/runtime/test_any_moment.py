"""Steps, cancellations, timeouts and closes at drawn moments: every step ends, as one of those says."""

from __future__ import annotations

import contextlib
from typing import Any, Final, TypeAlias

import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.testing.control import while_loop
from tests.effort import examples

#: {a step: (what it fetches, feeds, targets)}
STEPS: Final[dict[str, tuple[Any, dict[str, Any], list[str]]]] = {
    "waits": ("get:0", {}, []),
    "waits in two parts": (["get:0", "across:0"], {}, []),
    "brings": ([], {"x:0": 1.0}, ["put"]),
    "closes the queue": ([], {}, ["close"]),
    "writes": ([], {"x:0": 1.0}, ["set"]),
    "reads": ("read:0", {}, []),
    "goes round": ("loop:0", {"count:0": 300}, []),
}
#: What a step may end with, and why: the state is drawn as well.
ENDS: Final = {
    "value",
    "cancelled",
    "DeadlineExceededError: the step did not end within 1 s",
    "CancelledError: the session was closed while this step was running",
    "CancelledError: the session was closed while this step was waiting to begin",
    "FailedPreconditionError: this session is closed: open another",
}
#: What says that a variable has no value, and what that the queue was closed, or is gone.
UNWRITTEN: Final = "reading resource variable"
OF_QUEUES: Final = ("FIFOQueue 'queue' ", "Queue 'queue' ", "Enqueue operation was cancelled")

#: What is done, to or by what, and whether in limited time.
_Action: TypeAlias = tuple[str, Any, bool]
_CLOSE: Final[_Action] = ("close", 0, False)
_runs = st.tuples(st.just("run"), st.sampled_from(sorted(STEPS)), st.booleans())
_turns = st.tuples(st.just("turns"), st.integers(1, 12), st.just(False))
_actions = st.one_of(
    _runs,
    _runs,
    _turns,
    st.tuples(st.just("cancel"), st.integers(0, 9), st.just(False)),
    st.tuples(st.sampled_from(["time goes by", "reset"]), st.just(0), st.just(False)),
)


def _graph(devices: int) -> fe.Graph:
    g = fe.Graph()
    ops = g.ops
    with g.device("/device:CPU:0"):
        x = g.placeholder("float32", [], name="x")
        queue = ops.FIFOQueueV2(component_types=["float32"], shapes=[[]], capacity=2, name="queue")
        ops.QueueEnqueueV2(queue, [x], name="put")
        ops.QueueCloseV2(queue, name="close")
        got = ops.QueueDequeueV2(queue, component_types=["float32"], name="get")[0]
        variable = ops.VarHandleOp(dtype="float32", shape=[], shared_name="variable")
        ops.AssignVariableOp(variable, x, name="set")
        ops.ReadVariableOp(variable, dtype="float32", name="read")
        _, last = while_loop(
            g,
            lambda i, a, n: ops.Less(i, n),
            lambda i, a, n: [ops.Add(i, 1), ops.Tanh(a)],
            [g.constant(0), g.constant(0.5)],
            invariants=[g.placeholder("int32", [], name="count")],
        )
        ops.Identity(last, name="loop")
    with g.device(f"/device:CPU:{devices - 1}"):
        ops.Neg(got, name="across")
    return g


class _Run:
    """One session, and the steps that were begun."""

    def __init__(self, session: fe.Session, nursery: trio.Nursery, clock: trio.testing.MockClock) -> None:
        self.session = session
        self.nursery = nursery
        self.clock = clock
        self.scopes: list[trio.CancelScope] = []
        self.ends: list[str] = []

    async def act(self, what: str, which: Any, is_timed: bool) -> None:
        if what == "run":
            self.scopes.append(trio.CancelScope())
            self.nursery.start_soon(self._step, which, is_timed, self.scopes[-1])
        elif what == "turns":
            for _ in range(which):
                await trio.lowlevel.checkpoint()
        elif what == "cancel" and which < len(self.scopes):
            self.scopes[which].cancel()
        elif what == "time goes by":
            self.clock.jump(1)
        elif what == "reset":
            self.nursery.start_soon(self._reset)
        elif what == "close":
            await self.session.close()

    async def _step(self, name: str, is_timed: bool, scope: trio.CancelScope) -> None:
        fetches, feeds, targets = STEPS[name]
        options = fe.RunOptions(timeout_seconds=1) if is_timed else None
        end = "cancelled"
        with scope:
            try:
                await self.session.run(fetches, feeds, targets=targets, options=options)
                end = "value"
            except fe.errors.OpError as error:
                end = f"{type(error).__name__}: {error.message}"
        self.ends.append(end)

    async def _reset(self) -> None:
        with contextlib.suppress(fe.errors.FailedPreconditionError):  # it is closed
            await self.session.reset([])


@settings(max_examples=examples(400))
@given(
    devices=st.integers(1, 2),
    max_steps=st.sampled_from([None, None, 1, 2]),
    compiled=st.booleans(),
    actions=st.lists(_actions, max_size=10),
    last=_turns,
    too_late=st.lists(_runs | _turns, max_size=3),
)
def test_every_step_ends(
    devices: int,
    max_steps: int | None,
    compiled: bool,
    actions: list[_Action],
    last: _Action,
    too_late: list[_Action],
) -> None:
    clock = trio.testing.MockClock()

    async def main() -> None:
        config = fe.Config(
            device_count={"CPU": devices},
            max_steps=max_steps,
            compile_hot_plans=compiled,
            worker_threads=False,
        )
        session = fe.Session(_graph(devices), config=config)
        async with trio.open_nursery() as nursery:
            run = _Run(session, nursery, clock)
            for action in [*actions, last, _CLOSE, *too_late]:
                await run.act(*action)
            await trio.testing.wait_all_tasks_blocked()
            left = len(run.scopes) - len(run.ends)
            nursery.cancel_scope.cancel()
        assert not left, f"{left} steps wait for what nobody brings any more"
        statistics = session.statistics()
        assert (statistics.running_steps, statistics.waiting_steps) == (0, 0)
        is_disturbed = any(what == "reset" or which == "closes the queue" for what, which, _ in actions)
        for end in run.ends:
            is_of_state = UNWRITTEN in end or (is_disturbed and any(words in end for words in OF_QUEUES))
            assert end in ENDS or is_of_state

    trio.run(main, clock=clock)
