"""A sequence of layers whose values are compared with those of the kernels one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from unittest import mock

import numpy as np

import flowengine as fe
from flowengine.core.arrays import Array
from flowengine.ir.graph import OutputPort
from flowengine.ir.traverse import topological_order
from flowengine.kernels.load import registry
from flowengine.kernels.numpy.sequences import Sequence as FusedSequence
from flowengine.kernels.numpy.sequences import SequenceStep
from flowengine.kernels.onednn.programs.joint import JointProgram
from flowengine.passes.context import PassContext
from tests.kernels.turns import Turns
from tests.passes.claiming import claimed

ONE: dict[str, Any] = {"strides": [1, 1, 1, 1], "padding": "SAME"}
#: Ops whose values are given to a sequence in these tests.
GIVEN = frozenset({"Placeholder", "Const", "VariableV2"})
#: Runs after which what can be joined is, also where a variable holds the filters.
ENOUGH = 18


def numbers(seed: int, *shape: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def constant(array: Array) -> Any:
    """Return the array as a graph's constant would be."""
    return np.frombuffer(array.tobytes(), array.dtype).reshape(array.shape)


class Rig:
    """The nodes of a graph as one sequence, and as they run one by one.

    gives   the tensors that are taken outside
    """

    def __init__(self, graph: fe.Graph, gives: Sequence[Any], provider: str = "onednn") -> None:
        self._graph, self._gives, self._provider = graph, gives, provider
        self.names, steps, numbers_of = self._steps()
        self.gives = [numbers_of[tensor.port] for tensor in gives]
        self.sequence = FusedSequence(len(self.names), steps, self.gives)
        # Kernels of their own: some remember what they have seen.
        self._alone = self._steps()[1]

    def _steps(self) -> tuple[list[str], list[SequenceStep], dict[OutputPort, int]]:
        kernels = registry(self._provider)
        context = PassContext(fetches=tuple(tensor.port for tensor in self._gives), kernels=kernels)
        graph = claimed(self._graph, context, frozenset(node.name for node in self._graph))
        order = [graph[name] for name in topological_order(graph.nodes)]
        inputs = [node.name for node in order if node.op in GIVEN]
        numbers_of = {OutputPort(name, 0): number for number, name in enumerate(inputs)}
        steps = []
        for node in order:
            if node.op in GIVEN:
                continue
            assert node.op_def is not None
            places = iter([numbers_of[port] for port in node.inputs])
            sources: list[Any] = []
            for arg in node.op_def.inputs:
                taken = tuple(next(places) for _ in arg.types(node.attrs))
                sources.append(taken if arg.is_list else taken[0])
            function = kernels.find(node).bind(node)
            steps.append(SequenceStep(node, function, tuple(sources), len(node.output_types)))
            for slot in range(len(node.output_types)):
                numbers_of[OutputPort(node.name, slot)] = len(numbers_of)
        return inputs, steps, numbers_of

    def listed(self, values: Mapping[str, Any]) -> list[Any]:
        """Values by name, and those of constants, as the sequence takes them."""
        return [
            values[name] if name in values else self._graph[name].attrs["value"].value()
            for name in self.names
        ]

    def alone(self, values: Sequence[Any]) -> list[Any]:
        """Return the outputs of the nodes, computed one by one."""
        known = list(values)
        for step in self._alone:
            made = step.function(*step.arguments(known))
            known += [made] if step.outputs == 1 else made
        return [known[number] for number in self.gives]

    def check(self, *, turns: Turns | None = None, **values: Any) -> list[Any]:
        listed = self.listed(values)
        copies = [value.copy() if _may_change(value) else value for value in listed]
        with np.errstate(all="ignore"):
            got = self.sequence.run(listed) if turns is None else turns.run(self.sequence, listed)
            same(got, self.alone(copies))
        return got

    def join(self, **values: Any) -> None:
        """Run until all is joined that can be."""
        for _ in range(ENOUGH):
            self.check(**values)

    @property
    def joined(self) -> int:
        return len(self.sequence.joined)

    def ran_joined(self, **values: Any) -> bool:
        """Whether a run with these values, which are checked, uses what is joined."""
        done: list[bool] = []
        run = JointProgram.run

        def told(self: JointProgram, known: list[Any], turn: Any) -> Any:
            ended = run(self, known, turn)
            done.append(bool(ended))
            return ended

        with mock.patch.object(JointProgram, "run", told):
            self.check(**values)
        return bool(done) and all(done)


def _may_change(value: Any) -> bool:
    return isinstance(value, np.ndarray) and value.flags.writeable


def same(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    """To the last bit, NaN and the sign of 0 as well."""
    for mine, right in zip(got, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (right.shape, right.dtype)
        assert mine.tobytes() == right.tobytes(), np.argwhere(~(mine == right))[:5]


def chain(layout: str = "NHWC") -> Rig:
    """Two convolutions with what follows them, and a pooling."""
    graph = fe.Graph()
    ops = graph.ops
    x, w1, b1, w2 = (graph.placeholder("float32", None, name=name) for name in ("x", "w1", "b1", "w2"))
    y = ops.Conv2D(x, w1, **ONE, data_format=layout, name="first")
    y = ops.Relu(ops.BiasAdd(y, b1, data_format=layout, name="bias"))
    windows = [1, 2, 2, 1] if layout == "NHWC" else [1, 1, 2, 2]
    y = ops.MaxPool(y, ksize=windows, strides=windows, padding="VALID", data_format=layout, name="pool")
    y = ops.Relu6(ops.Conv2D(y, w2, **ONE, data_format=layout, name="second"), name="y")
    return Rig(graph, [y])


def inputs_of_chain(seed: int = 0, count: int = 2, side: int = 9, layout: str = "NHWC") -> dict[str, Any]:
    shape = (count, side, side, 16) if layout == "NHWC" else (count, 16, side, side)
    return {
        "x": numbers(seed, *shape),
        "w1": numbers(seed + 1, 3, 3, 16, 24),
        "b1": numbers(seed + 2, 24),
        "w2": numbers(seed + 3, 3, 3, 24, 8),
    }


# (1) The same bits, in the first run and in all that follow.
