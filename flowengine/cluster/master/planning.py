"""Plans of requests over the tasks of a cluster: pruned, placed, cut, and registered with each task once."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

from flowengine.cluster import messages as m
from flowengine.cluster.concurrent_calls import together
from flowengine.cluster.master.members import Members
from flowengine.cluster.master.notices import Notices
from flowengine.cluster.master.plans import MasterPlan, TaskPart, without_gathering
from flowengine.cluster.master.sessions import ClusterSession, PreparedRequest
from flowengine.core.errors import AbortedError
from flowengine.core.work_pieces import Piecework
from flowengine.kernels.registry import KernelRegistry
from flowengine.passes.cut.partition import partition
from flowengine.passes.pipeline import preparing
from flowengine.passes.place.placer import Placer
from flowengine.runtime.planning.planning_jobs import in_turns
from flowengine.runtime.turns import current_turns


class ClusterPlanner:
    """The planner of one master's requests."""

    def __init__(
        self,
        members: Members,
        notices: Notices,
        kernels: KernelRegistry,
        task_lost: Callable[[str], None],
    ) -> None:
        """`task_lost` is called with a task that has restarted."""
        self._members = members
        self._notices = notices
        self._kernels = kernels
        self._task_lost = task_lost
        self._handles = itertools.count(1)

    async def plan(self, session: ClusterSession, prepared: PreparedRequest) -> MasterPlan:
        """Return the plan of a request, registered with every task that takes part; renew a stale plan.

        Raises the errors of a session for a request that does not fit the graph, UnavailableError that names
        a missing task, AbortedError if a task that the session must not lose has restarted.
        """
        async with prepared.lock:
            plan = prepared.plan
            if plan is not None and not self.is_stale(plan):
                return plan
            if plan is not None:
                self._notices.plan_dropped(plan)
                prepared.plan = None
                session.placer = None
            await self._members.know_all()
            while True:
                plan = await self._cut(session, prepared)
                lost = self._members.lost.intersection(plan.tasks)
                if not lost:
                    break
                # Finds out whether they answer again, and with which incarnation; other lost tasks do not
                # matter here.
                await together(partial(self._members.ask, task) for task in sorted(lost))
                session.placer = None
            self._check_lives(session, plan)
            try:
                await together(partial(self._register, plan, part) for part in plan.parts)
            except BaseException:
                self._notices.plan_dropped(plan)
                raise
            prepared.plan = plan
            return plan

    def is_stale(self, plan: MasterPlan) -> bool:
        """Return whether a task that a plan needs may have forgotten it."""
        if plan.is_void:
            return True
        lost, known = self._members.lost, self._members.known
        for task, incarnation in plan.tasks.items():  # noqa: SIM110
            if task in lost or known[task][0] != incarnation:
                return True
        return False

    async def _cut(self, session: ClusterSession, prepared: PreparedRequest) -> MasterPlan:
        """Make the plan of a request over the known tasks, in turns with other work."""
        request = session.requests.read(prepared.fetches, prepared.feeds, prepared.targets)
        context = session.requests.context(request, session.settings, self._kernels)
        job = Piecework(preparing(session.graph, context))
        await in_turns(job, current_turns())
        graph = job.result()
        devices = self._members.known
        placement = self._placer(session).place(graph, session.graph, supplied=context.feeds)
        graph, context = without_gathering(graph, context)
        incarnations = {task: incarnation for task, (incarnation, _) in devices.items()}
        cut = partition(
            graph,
            context,
            placement.device_of,
            {str(o.name): incarnations[task] for task, (_, offers) in devices.items() for o in offers},
        )
        here = self._members.identity.task
        plan = MasterPlan(next(self._handles), cut, context, incarnations, here, session.number)
        session.tasks.update(plan.tasks)
        return plan

    def _check_lives(self, session: ClusterSession, plan: MasterPlan) -> None:
        """Raise AbortedError if a task that a session must not lose has restarted."""
        if not session.settings.abort_on_restart:
            return
        for task, incarnation in plan.tasks.items():
            if session.lives.setdefault(task, incarnation) != incarnation:
                raise AbortedError(
                    f"{task} has restarted since session {session.number} used it: what it held is gone"
                )

    def _placer(self, session: ClusterSession) -> Placer:
        if session.placer is None:
            settings = session.settings
            # The master's own task comes first, because it costs no message.
            tasks = sorted(self._members.known, key=lambda task: task != self._members.identity.task)
            session.placer = Placer(
                [offer for task in tasks for offer in self._members.known[task][1]],
                self._kernels,
                rules=settings.place,
                soft=bool(settings.allow_soft_placement),
                log=settings.log_device_placement,
            )
        return session.placer

    async def _register(self, plan: MasterPlan, part: TaskPart) -> None:
        addresses = {**self._members.links.addresses}
        message, graphs = plan.registration(part, addresses)
        self._members.count(m.REGISTER_GRAPH)
        if part.task == self._members.identity.task:
            await self._members.worker.register(self._members.registrar, message, graphs, self._members.links)
            return
        try:
            peer = await self._members.links.peer(part.task, part.incarnation)
            await self._members.call(peer, m.REGISTER_GRAPH, message.to_wire(), graphs)
        except AbortedError:
            # It has restarted, and this side has not noticed the end of its last incarnation, so it must be
            # asked again.
            self._task_lost(part.task)
            raise


__all__ = ["ClusterPlanner"]
