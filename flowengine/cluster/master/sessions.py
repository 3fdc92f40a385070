"""Sessions of clients at a master: their graphs, prepared requests and running steps."""

from __future__ import annotations

import trio

from flowengine.cluster import messages as m
from flowengine.cluster.master.followed_steps import FollowedStep
from flowengine.cluster.master.plans import MasterPlan
from flowengine.core.config import Settings
from flowengine.core.lru_cache import LruCache
from flowengine.ir.graph import NodeGraph
from flowengine.passes.place.placer import Placer
from flowengine.runtime.planning.requests import Requests
from flowengine.runtime.taskless import Cancellable
from flowengine.transport.wire.identity import Identity


class PreparedRequest:
    """A request and its plan; the plan is made anew when a task that it needs has restarted."""

    __slots__ = ("feeds", "fetches", "lock", "plan", "targets")

    def __init__(self, feeds: list[str], fetches: list[str], targets: list[str]) -> None:
        self.feeds = feeds
        self.fetches = fetches
        self.targets = targets
        self.plan: MasterPlan | None = None
        self.lock = trio.Lock()


class ClusterSession:
    """One client's graph at this master."""

    def __init__(self, number: int, owner: Identity, graph: NodeGraph, settings: Settings) -> None:
        self.number = number
        self.owner = owner
        self.settings = settings
        self.prepared: LruCache[int, PreparedRequest] = LruCache(m.REQUESTS_MAX)
        self.placer: Placer | None = None
        self.running: set[Cancellable] = set()
        #: {the client's number of a followed step: the step}, until the client takes its trace.
        self.followed: dict[int, FollowedStep] = {}
        self._idle = trio.lowlevel.ParkingLot()
        #: {task: incarnation} of the tasks that steps have used; another incarnation of one is an error.
        self.lives: dict[str, int] = {}
        #: The tasks that may hold state of this session.
        self.tasks: set[str] = set()
        self.graph = graph
        self.requests = Requests(graph)

    def step_ended(self, step: Cancellable) -> None:
        """Record that one of the session's steps is over."""
        self.running.discard(step)
        if not self.running and self._idle:
            self._idle.unpark_all()

    async def wait_idle(self) -> None:
        """Wait until no step of the session runs."""
        while self.running:
            await self._idle.park()

    def replace_graph(self, graph: NodeGraph) -> None:
        """Use the extended graph from now on; prepared requests keep their plans."""
        self.graph = graph
        self.requests = Requests(graph)


__all__ = ["ClusterSession", "PreparedRequest"]
