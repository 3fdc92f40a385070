"""Saveables: variables of a session, the names they are saved under, and slices of larger tensors.

They are derived from a graph's variables, from names that a caller lists, or from the nodes that TensorFlow's
Saver has left in a graph. A saveable refers to a variable by the container and name under which sessions keep
it, so any session of the same graph may use it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import parse_tensor_name
from flowengine.core.shapes import TensorShape
from flowengine.graphs.variables.initializing import listed_variables
from flowengine.graphs.variables.keys import LOCAL_VARIABLES, VARIABLES
from flowengine.ir.graph import Node, NodeGraph
from flowengine.ir.traits import GivesVariable, HandsOn, ValueOf
from flowengine.resources.container import ResourceManager
from flowengine.resources.names import resource_name
from flowengine.resources.variable import Variable


@dataclass(frozen=True, slots=True)
class Saveable:
    """A variable in a checkpoint.

    name        the tensor's name in the checkpoint
    spec        "" for the whole of it, else shape and slice as the ops write them: "4 5 0,2:-"
    container, shared_name   the variable in a session's resource manager
    node        the variable's node, for messages
    """

    name: bytes
    spec: str
    container: str
    shared_name: str
    dtype: DType
    shape: TensorShape
    node: str

    def find(self, resources: ResourceManager) -> Variable | None:
        """The variable, or None where no step has made it yet."""
        return resources.find(self.container, self.shared_name, Variable)

    def find_or_make(self, resources: ResourceManager) -> Variable:
        """The variable, made uninitialized where there is none, as its node would make it."""
        return resources.lookup_or_create(
            self.container,
            self.shared_name,
            Variable,
            lambda: Variable(self.shared_name, self.dtype, self.shape, container=self.container),
        )

    @property
    def text(self) -> str:
        """The name for a message."""
        return self.name.decode("utf-8", "backslashreplace")


def of_variable(node: Node, name: str | bytes | None = None, spec: str = "") -> Saveable:
    """Return the variable of a node; InvalidArgumentError for a node that is not a variable."""
    if not node.has(GivesVariable):
        raise InvalidArgumentError(f"'{node.name}' is a {node.op}: only variables can be saved")
    shared = node.attrs.get("shared_name", b"")
    container = node.attrs.get("container", b"")
    dtype, shape = node.attrs["dtype"], node.attrs["shape"]
    assert isinstance(shared, bytes)
    assert isinstance(container, bytes)
    assert isinstance(dtype, DType)
    assert isinstance(shape, TensorShape)
    # A handle without a shared name is of the variable without a name.
    own_name = node.name if node.output_types[0].is_ref else ""
    where, kept_as = resource_name(container, shared, own_name)
    key = os.fsencode(node.name if name is None else name)
    return Saveable(key, spec, where, kept_as, dtype.base, shape, node.name)


def of_graph(graph: NodeGraph) -> list[Saveable]:
    """Every variable of a graph under its node's name; one that several nodes share, once.

    Local variables, such as counts of epochs and the sums of metrics, are left out. A part of a variable is a
    slice of the whole.
    """
    found: dict[tuple[str, str], Saveable] = {}
    listed = {each.op.name: each for each in listed_variables(graph, LOCAL_VARIABLES)}
    lasting = {each.op.name: each for each in listed_variables(graph, VARIABLES)}
    local = listed.keys() - lasting.keys()
    for node in graph:
        if node.has(GivesVariable) and node.name not in local:
            part = lasting[node.name].save_slice if node.name in lasting else None
            saveable = of_variable(node) if part is None else of_variable(node, part.full_name, part.spec)
            found.setdefault((saveable.container, saveable.shared_name), saveable)
    return list(found.values())


def of_list(graph: NodeGraph, var_list: Iterable[Any] | Mapping[str | bytes, Any]) -> list[Saveable]:
    """The variables that a caller names: by name, as Tensors or Operations, or {name in checkpoint: one}.

    Raises NotFoundError for a name that the graph does not have, InvalidArgumentError for nodes that are not
    variables and for two under one name.
    """
    pairs: Iterable[tuple[str | bytes | None, Any]]
    pairs = var_list.items() if isinstance(var_list, Mapping) else ((None, each) for each in var_list)
    saveables = [one for name, each in pairs for one in _parts(graph, each, name)]
    check_distinct(saveables)
    return saveables


def _parts(graph: NodeGraph, given: Any, name: str | bytes | None) -> list[Saveable]:
    """Return the saveables of a value that a caller names: itself, or each of its parts as a slice."""
    found = []
    for each in getattr(given, "parts", (given,)):
        part = getattr(each, "save_slice", None)
        node = _node_of(graph, each)
        if part is None:
            found.append(of_variable(node, name))
        else:
            found.append(of_variable(node, part.full_name if name is None else name, part.spec))
    return found


def variable_named(graph: NodeGraph, given: Any) -> Saveable:
    """Return the one variable of a name, Tensor or Operation; raises as `of_list` does."""
    return of_variable(_node_of(graph, given))


def check_distinct(saveables: Sequence[Saveable]) -> None:
    """InvalidArgumentError where two are to be saved under one name."""
    seen: dict[tuple[bytes, str], Saveable] = {}
    for each in saveables:
        other = seen.setdefault((each.name, each.spec), each)
        if other is not each:
            raise InvalidArgumentError(
                f"At least two variables have the same name: '{other.node}' and '{each.node}' are both to be "
                f"saved as '{each.text}'"
            )


def _node_of(graph: NodeGraph, given: Any) -> Node:
    name = given if isinstance(given, str) else getattr(given, "node_name", getattr(given, "name", None))
    if not isinstance(name, str):
        raise InvalidArgumentError(f"{given!r} is neither the name of a variable, nor a Tensor or Operation")
    if ":" in name:
        name = parse_tensor_name(name)[0]
    if name not in graph:
        variables = [node.name for node in graph if node.has(GivesVariable)]
        raise NotFoundError(f"the graph has no variable '{name}'{alike(name, variables)}")
    found = variable_behind(graph, graph[name])
    return graph[name] if found is None else found


def alike(name: str, names: Iterable[str]) -> str:
    """A hint for a message: the names most like this one, or nothing."""
    near = difflib.get_close_matches(name, list(names), n=3, cutoff=0.6)
    return f"; did you mean {', '.join(near)}?" if near else ""


def variable_behind(graph: NodeGraph, node: Node) -> Node | None:
    """The variable that a node is or hands on; None where it is something else."""
    while (node.has(HandsOn) or node.has(ValueOf)) and node.inputs and not node.control_inputs:
        node = graph[node.inputs[0].node]
    return node if node.has(GivesVariable) else None
