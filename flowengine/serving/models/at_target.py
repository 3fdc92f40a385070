"""Versions whose steps run at a cluster: each keeps its variables and tables in a container of its own.

The tasks of a cluster share resources by container and name among all sessions. Without a container of its
own a version would overwrite the variables of the one that still answers.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Final

import trio

from flowengine.core.config import Config
from flowengine.core.errors import OpError
from flowengine.graphs.graph import Graph
from flowengine.ir.proto import GraphDef, NodeDef
from flowengine.ops.load import registry
from flowengine.saved_model.model import AwaitedModel
from flowengine.saved_model.reading import SavedGraph
from flowengine.session import Session

logger: Final = logging.getLogger("flowengine.serving")

#: Seconds that a cluster has to clear the container of a version that has ended.
_CLEARING_SECONDS: Final = 10.0


class ModelAtTarget(AwaitedModel):
    """A model of a cluster's session; closed, it clears its container on all tasks."""

    def __init__(self, saved: SavedGraph, session: Session, container: str) -> None:
        super().__init__(saved, session)
        self._container = container

    async def close(self) -> None:
        """Clear the container and close the session; a cluster that does not answer keeps the container."""
        try:
            with trio.move_on_after(_CLEARING_SECONDS) as scope:
                await self.session.reset([self._container])
            if scope.cancelled_caught:
                logger.warning("container %r stays at the cluster: it did not answer", self._container)
        except OpError as error:
            logger.warning("container %r stays at the cluster: %s", self._container, error.message)
        finally:
            await self.session.close()


async def open_at(
    target: str,
    saved: SavedGraph,
    config: Config | None,
    restoring: Callable[[Session, SavedGraph], Awaitable[None]],
) -> ModelAtTarget:
    """Open a session of a cluster for a graph that was read, and restore its variables by `restoring`.

    Raises what restoring raises. Cancelled, it leaves nothing open.
    """
    container = _new_container()
    graph = await trio.to_thread.run_sync(in_container, saved.graph, container)
    saved = replace(saved, graph=graph)
    model = ModelAtTarget(saved, Session(graph, target=target, config=config), container)
    try:
        await restoring(model.session, saved)
    except BaseException:
        with trio.CancelScope(shield=True):
            await model.close()
        raise
    return model


def _new_container() -> str:
    return f"serving-{secrets.token_hex(8)}"


def in_container(graph: Graph, container: str) -> Graph:
    """Return a graph whose nodes keep their resources in a container, unless they name another.

    >>> from flowengine.serving.models.at_target import in_container
    >>> graph = fe.Graph()
    >>> weights = graph.variable(2.0, name="w")
    >>> moved = in_container(graph, "mine")
    >>> {node.attr["container"].s for node in moved.to_graph_def().node if "container" in node.attr}
    {b'mine'}
    """
    graph_def = graph.to_graph_def()
    for node in _nodes(graph_def):
        op_def = registry().find(node.op)
        if op_def is not None and any(attr.name == "container" for attr in op_def.attrs):
            node.attr["container"].s = node.attr["container"].s or container.encode()
    return Graph.from_graph_def(graph_def)


def _nodes(graph_def: GraphDef) -> Iterator[NodeDef]:
    yield from graph_def.node
    for function in graph_def.library.function:
        yield from function.node_def


__all__ = ["ModelAtTarget", "in_container", "open_at"]
