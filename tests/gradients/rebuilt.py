"""A training graph whose gradients are cut off and made anew.

What TensorFlow's `tf.gradients` added lies under a scope `gradients`. It is taken away, and with it all that
was made of it: clipping, the updates of variables, the op that groups them. The rest is the graph as it was
before; it is differentiated by each variable that was updated. Then what was made of the gradients is put
back, and takes the new ones.

TensorFlow also widened functional loops: their functions, called `<before>_rewritten`, take lists that
gradients made and return them with what the gradients need. These loops get the functions of before again,
which TensorFlow leaves in the library.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import flowengine as fe
from flowengine.ir.names import WHILE_OPS
from flowengine.ops.load import registry

#: Names of what `tf.gradients` made.
_GRADIENT: Final = re.compile(r"(.*/)?gradients(_\d+)?/")
#: What a widened function has behind the name that it had before.
_WIDENED: Final = "_rewritten"
#: What ops that update a variable call it.
_VARIABLE: Final = ("var", "ref")
#: {the parts of a gradient: what ops that take them call them}
_PARTS: Final = {
    "values": ("delta", "grad", "updates", "gradient", "gradient_values"),
    "indices": ("indices", "gradient_indices"),
    "shape": ("gradient_shape",),
}
#: Ops that give the average of gradients; their first input is the accumulator.
_TAKING: Final = {
    "ResourceAccumulatorTakeGradient",
    "AccumulatorTakeGradient",
    "SparseAccumulatorTakeGradient",
}


class TrainingGraph:
    """A GraphDef taken apart.

    made       names of the nodes of gradients
    later      the nodes that depend on those, in order
    forward    the GraphDef without either
    """

    def __init__(self, definition: Any) -> None:
        definition = _narrowed(definition)
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
        """{variable: {"values", "indices" or "shape": the tensor that TensorFlow made}}"""
        found: dict[str, dict[str, str]] = {}
        for node in self.nodes.values():
            given = _arguments(node)
            if not set(_VARIABLE) & set(list(given)[:1]) or not set(_PARTS["values"]) & set(given):
                continue
            parts = found.setdefault(self._variable(node), {})
            for part, names in _PARTS.items():
                for name in names:
                    if name in given:
                        parts |= self._sources(given[name], part)
        return found

    def _variable(self, update: Any) -> str:
        """Return the variable that an update changes; where a slot gets the rows, the one assigned beside."""
        scope = update.name.rpartition("/")[0]
        beside = [n for n in self.later if n.op == "AssignSub" and n.name.rpartition("/")[0] == scope]
        return _tensor((beside[0] if scope and beside else update).input[0])

    def _sources(self, name: str, part: str) -> dict[str, str]:
        """The parts of the gradient of which something was made.

        First inputs are followed back to it, and from an accumulator all parts that were given to that.
        """
        while _node(name) not in self.made:
            node = self.nodes[_node(name)]
            if node.op in _TAKING:
                return self._given_to(node.input[0])
            name = node.input[0]
        return {part: _tensor(name)}

    def _given_to(self, accumulator: str) -> dict[str, str]:
        """The parts of the gradient that is given to an accumulator."""
        (giver,) = (
            node
            for node in self.later
            if node.input[0] == accumulator and set(_arguments(node)) & set(_PARTS["values"])
        )
        found: dict[str, str] = {}
        for name, given in _arguments(giver).items():
            for part, names in _PARTS.items():
                if name in names:
                    found |= self._sources(given, part)
        return found


def _arguments(node: Any) -> dict[str, str]:
    """{name of an argument: what is given for it}, for an op of which each argument is one tensor."""
    definition = registry().get(node.op)
    names = [arg.name for arg in definition.inputs] if definition is not None else []
    return dict(zip(names, node.input, strict=False))


def _narrowed(definition: Any) -> Any:
    """The GraphDef with its widened loops as they were before."""
    signatures = {function.signature.name: function.signature for function in definition.library.function}
    narrowed = type(definition)()
    narrowed.CopyFrom(definition)
    for node in narrowed.node:
        if node.op not in WHILE_OPS or not node.attr["body"].func.name.endswith(_WIDENED):
            continue
        for key in ("cond", "body"):
            node.attr[key].func.name = node.attr[key].func.name.removesuffix(_WIDENED)
        taken = len(signatures[node.attr["body"].func.name].input_arg)
        del node.input[taken : len(node.attr["T"].list.type)]
        del node.attr["T"].list.type[taken:]
        del node.attr["output_shapes"].list.shape[taken:]
    return narrowed


def _node(name: str) -> str:
    return name.removeprefix("^").split(":")[0]


def _tensor(name: str) -> str:
    return name if ":" in name else f"{name}:0"


def rebuilt(definition: Any, loss: str) -> fe.Graph:
    """The training graph with the gradients of a loss made by `flowengine.gradients`."""
    before = TrainingGraph(definition)
    wanted = before.gradients()
    assert wanted, "the graph updates no variable by a gradient"
    graph = fe.Graph.from_graph_def(before.forward)
    found = fe.gradients(graph.tensor(loss), [graph.tensor(name) for name in wanted], name="rebuilt")
    types = fe.Graph.from_graph_def(definition)
    new: dict[str, str] = {}
    for old, gradient in zip(wanted.values(), found, strict=True):
        assert gradient is not None
        parts: dict[str, Any] = {"values": gradient}
        if isinstance(gradient, fe.IndexedSlices):
            parts = {"values": gradient.values, "indices": gradient.indices, "shape": gradient.dense_shape}
        for part, name in old.items():
            new[name] = graph.ops.Cast(parts[part], DstT=types.tensor(name).dtype).name
    whole = graph.to_graph_def()
    whole.node.extend(_rewired(before, new))
    return fe.Graph.from_graph_def(whole)


def _rewired(parts: TrainingGraph, new: Mapping[str, str]) -> list[Any]:
    """Return the nodes made of gradients, fed by the new ones; drop those that read other old nodes."""
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
