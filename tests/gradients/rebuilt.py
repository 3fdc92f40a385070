"""A training graph whose gradients are cut off and made anew.

What TensorFlow's `tf.gradients` added lies under a scope `gradients`. It is taken away, and with it all that
was made of it: clipping, the updates of variables, the op that groups them. The rest is the graph as it was
before; it is differentiated by each variable that was updated. Then what was made of the gradients is put
back, and takes the new ones.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import flowengine as fe
from flowengine.ops.load import registry

#: Names of what `tf.gradients` made.
_GRADIENT: Final = re.compile(r"(.*/)?gradients(_\d+)?/")
#: What ops that update a variable call it, the gradient, and the rows that it is of.
_VARIABLE: Final = ("var", "ref")
_VALUES: Final = ("delta", "grad", "updates")
_ROWS: Final = "indices"


class TrainingGraph:
    """A GraphDef taken apart.

    made       names of the nodes of gradients
    later      the nodes that depend on those, in order
    forward    the GraphDef without either
    """

    def __init__(self, definition: Any) -> None:
        self.nodes: Mapping[str, Any] = {node.name: node for node in definition.node}
        self.made = {name for name in self.nodes if _GRADIENT.match(name)}
        behind = set(self.made)
        size = 0
        while size != len(behind):
            size = len(behind)
            behind.update(n.name for n in definition.node if any(_node(i) in behind for i in n.input))
        self.later = [node for node in definition.node if node.name in behind - self.made]
        self.forward = type(definition)()
        self.forward.CopyFrom(definition)
        del self.forward.node[:]
        self.forward.node.extend(node for node in definition.node if node.name not in behind)

    def gradients(self) -> dict[str, dict[str, str]]:
        """{variable: {"values" or "indices": the tensor that TensorFlow made}}"""
        found: dict[str, dict[str, str]] = {}
        for node in self.later:
            definition = registry().get(node.op)
            names = [arg.name for arg in definition.inputs] if definition is not None else []
            if not names or names[0] not in _VARIABLE or not set(names) & set(_VALUES):
                continue
            parts = found.setdefault(self._variable(node), {})
            for name, given in zip(names, node.input, strict=False):
                if name in _VALUES:
                    parts["values"] = self._source(given)
                elif name == _ROWS:
                    parts["indices"] = self._source(given)
        return found

    def _variable(self, update: Any) -> str:
        """What an update is of: where a slot gets the rows, the variable that is assigned to beside it."""
        scope = update.name.rpartition("/")[0]
        beside = [n for n in self.later if n.op == "AssignSub" and n.name.rpartition("/")[0] == scope]
        return _tensor((beside[0] if scope and beside else update).input[0])

    def _source(self, name: str) -> str:
        """The gradient of which something was made: first inputs are followed back to it."""
        while _node(name) not in self.made:
            name = self.nodes[_node(name)].input[0]
        return _tensor(name)


def _node(name: str) -> str:
    return name.removeprefix("^").split(":")[0]


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def rebuilt(definition: Any, loss: str) -> fe.Graph:
    """The training graph with the gradients of a loss made by `flowengine.gradients`."""
    parts = TrainingGraph(definition)
    wanted = parts.gradients()
    assert wanted, "the graph updates no variable by a gradient"
    graph = fe.Graph.from_graph_def(parts.forward)
    found = fe.gradients(graph.tensor(loss), [graph.tensor(name) for name in wanted], name="rebuilt")
    new: dict[str, str] = {}
    for old, gradient in zip(wanted.values(), found, strict=True):
        assert gradient is not None
        if isinstance(gradient, fe.IndexedSlices):
            new[old["values"]], new[old["indices"]] = gradient.values.name, gradient.indices.name
        else:
            new[old["values"]] = gradient.name
    whole = graph.to_graph_def()
    whole.node.extend(_rewired(parts, new))
    return fe.Graph.from_graph_def(whole)


def _rewired(parts: TrainingGraph, new: Mapping[str, str]) -> list[Any]:
    """What was made of gradients, of the new ones; without what looked at others than those."""
    lost = set(parts.made)
    kept = []
    for node in _in_order(parts.later):
        inputs = [i if i.startswith("^") else new.get(_tensor(i), i) for i in node.input]
        inputs = [i for i in inputs if not (i.startswith("^") and _node(i) in parts.made)]
        if any(_node(i) in lost for i in inputs):
            lost.add(node.name)
            continue
        copy = type(node)()
        copy.CopyFrom(node)
        del copy.input[:]
        copy.input.extend(inputs)
        copy.attr.pop("_class", None)
        kept.append(copy)
    return kept


def _in_order(nodes: list[Any]) -> list[Any]:
    """Each node behind those of the list whose outputs it takes."""
    left = {node.name: node for node in nodes}
    ordered: list[Any] = []
    while left:
        ready = [n for n in left.values() if not any(_node(i) in left for i in n.input)]
        assert ready, "what was made of gradients goes in a circle"
        ordered += ready
        for node in ready:
            del left[node.name]
    return ordered
