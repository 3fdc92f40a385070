"""Giving variables their first values: those that have none, each after the ones that it is made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from flowengine.core import tracebacks
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.variables.keys import LOCAL_VARIABLES, TABLE_INITIALIZERS, VARIABLES
from flowengine.ir.graph import NodeGraph
from flowengine.ir.traits import GivesVariable

if TYPE_CHECKING:
    from flowengine.graphs.variables.partitioned import PartitionedVariable
    from flowengine.graphs.variables.variable import GraphVariable

    #: A variable as a graph lists it.
    Listed: TypeAlias = GraphVariable | PartitionedVariable


class SessionVariables(ABC):
    """The methods of a session for the variables that its graph lists."""

    graph: NodeGraph
    #: Whether the nodes that the graph lists as "table_initializer" have run.
    _has_filled = False

    @abstractmethod
    async def run(
        self, fetches: Any, feed_dict: Any = None, *, targets: Sequence[Any] = (), options: Any = None
    ) -> Any:
        """See `Session.run`."""

    @tracebacks.hides_engine
    async def uninitialized(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """Return the `variables` that have no value, by default of all that the graph lists.

        They are the graph's collections "variables" and "local_variables". Raises the errors of a step.

        >>> graph = fe.Graph()
        >>> w = graph.variable(1.0, name="w")
        >>> with fe.blocking.Session(graph) as session:
        ...     session.uninitialized()
        [<GraphVariable 'w:0' shape=[] dtype=float32>]
        """
        listed = (
            listed_variables(self.graph, VARIABLES, LOCAL_VARIABLES)
            if variables is None
            else _flat(variables)
        )
        known = await self.run([each.initialized() for each in listed]) if listed else []
        return [each for each, has_value in zip(listed, known, strict=True) if not has_value]

    @tracebacks.hides_engine
    async def initialize(self, variables: Iterable[Listed] | None = None) -> list[GraphVariable]:
        """Give variables that have no value their first one, and return those; by default as `uninitialized`.

        Variables are initialized in the order of their dependences. Variables that have a value, from a
        checkpoint or another session, keep it. If it is cancelled or fails, some have their values. Raises
        InvalidArgumentError for variables whose initial values depend on each other.

        The first call without `variables` then runs the nodes that the graph lists as "table_initializer",
        which fill tables and begin iterators.

        >>> graph = fe.Graph()
        >>> w = graph.variable(1.0, name="w")
        >>> async def main():
        ...     async with fe.Session(graph) as session:
        ...         print([each.name for each in await session.uninitialized()])
        ...         print([each.name for each in await session.initialize([w])], await session.initialize())
        >>> trio.run(main)
        ['w:0']
        ['w:0'] []
        """
        missing = await self.uninitialized(variables)
        for group in _in_order(self.graph, missing):
            await self.run([], targets=[each.initializer for each in group])
        if variables is None and not self._has_filled:
            fillers = _fillers(self.graph)
            if fillers:
                await self.run([], targets=fillers)
            self._has_filled = True
        return missing


def _fillers(graph: NodeGraph) -> list[str]:
    """The nodes that fill tables and begin iterators; a name that is no node's is left out."""
    collection = getattr(graph, "collection", None)
    listed = [] if collection is None else collection(TABLE_INITIALIZERS)
    names = (str(getattr(each, "name", each)).partition(":")[0] for each in listed)
    return [name for name in dict.fromkeys(names) if name in graph]


def listed_variables(graph: NodeGraph, *keys: str) -> list[GraphVariable]:
    """The variables that a graph lists under these names, each once, parts one by one."""
    collection = getattr(graph, "collection", None)
    return [] if collection is None else _flat(each for key in keys for each in collection(key))


def _flat(variables: Iterable[Any]) -> list[GraphVariable]:
    """Each variable once, and the parts of those that are in parts."""
    found: dict[int, GraphVariable] = {}
    for each in variables:
        for part in getattr(each, "parts", (each,)):
            found.setdefault(id(part), part)
    return list(found.values())


def _in_order(graph: NodeGraph, variables: Sequence[GraphVariable]) -> list[list[GraphVariable]]:
    """Groups of variables of which each needs only those of the groups before."""
    by_node = {each.op.name: each for each in variables}
    needs = {name: _needed(graph, each, by_node) for name, each in by_node.items()}
    groups = []
    while needs:
        free = [name for name, others in needs.items() if not others & needs.keys()]
        if not free:
            raise InvalidArgumentError(
                f"the initial values of {', '.join(sorted(needs))} need each other: start one from a constant"
            )
        groups.append([by_node[name] for name in free])
        for name in free:
            del needs[name]
    return groups


def _needed(graph: NodeGraph, variable: GraphVariable, wanted: Iterable[str]) -> set[str]:
    """The nodes of the other variables that a variable's initializer goes back to."""
    own, found, wanted = variable.op.name, set(), set(wanted)
    waiting, seen = [variable.initializer.name], {variable.initializer.name}
    while waiting:
        node = graph[waiting.pop()]
        if node.has(GivesVariable) and node.name != own and node.name in wanted:
            found.add(node.name)
        for source in (*(port.node for port in node.inputs), *node.control_inputs):
            if source not in seen:
                seen.add(source)
                waiting.append(source)
    return found
