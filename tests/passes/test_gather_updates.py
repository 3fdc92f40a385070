"""Steps of an optimizer on small variables are one, where nothing orders them, with the bits of each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import flowengine as fe
from flowengine.core.dtypes import float32
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.ir.graph import Node, NodeGraph, OutputPort
from flowengine.kernels.load import registry
from flowengine.kernels.numpy.claims.gather_updates import gather_updates
from flowengine.kernels.training.apply import dense_updates
from flowengine.kernels.training.gathered_updates import GatheredUpdates
from flowengine.passes.context import PassContext
from flowengine.resources.variable import Variable
from tests.effort import examples
from tests.passes.claiming import asking, claimed

SHAPES = ((3,), (2, 5), (), (7,), (1, 1, 4, 2))
ATTRS: dict[str, dict[str, Any]] = {
    "ApplyMomentum": {"use_nesterov": True},
    "ResourceApplyKerasMomentum": {"use_nesterov": True},
    "ApplyAdam": {"use_nesterov": True},
    "ResourceApplyAdam": {"use_nesterov": True},
}


class Training:
    """Variables, what keeps their slots, and a step on each."""

    def __init__(self, op: str = "ApplyRMSProp", shapes: Sequence[Any] = SHAPES, **attrs: Any) -> None:
        self.graph = g = fe.Graph()
        self.update = update = dense_updates()[op]
        self.numbers = [g.constant(np.float32(0.1 + 0.2 * n)) for n in range(len(update.numbers))]
        self.variables: list[Any] = []
        self.steps: list[Any] = []
        self.begin: list[Any] = []
        random = np.random.default_rng(0)
        self.feeds: list[Any] = []
        for place, shape in enumerate(shapes):
            kept = []
            for slot in update.slots:
                value = np.asarray(random.random(shape or ()), np.float32)
                kept.append(self.variable(f"{slot}{place}", shape, value, op.startswith("Resource")))
            gradient = g.placeholder("float32", shape, name=f"g{place}")
            self.feeds.append(gradient)
            self.step(place, kept, gradient, op, attrs)
            self.variables += kept

    def variable(self, name: str, shape: Any, value: Any, is_resource: bool) -> Any:
        ops = self.graph.ops
        if is_resource:
            made = ops.VarHandleOp(shape=shape, dtype="float32", shared_name=name, name=name)
            self.begin.append(ops.AssignVariableOp(made, value))
            return made
        made = ops.VariableV2(shape=shape, dtype="float32", name=name)
        self.begin.append(ops.Assign(made, value, validate_shape=False).op)
        return made

    def step(self, place: int, kept: Sequence[Any], gradient: Any, op: str, attrs: dict[str, Any]) -> None:
        values = self.update.inputs(self.numbers, gradient)
        made = getattr(self.graph.ops, op)(
            *kept, *values, **{**ATTRS.get(op, {}), **attrs}, name=f"step{place}"
        )
        self.steps.append(getattr(made, "op", made))


def after(
    graph: NodeGraph, fetches: tuple[str, ...] = (), targets: tuple[str, ...] = ("train",)
) -> list[str]:
    """The updates that are left, by name."""
    context = PassContext(
        fetches=tuple(OutputPort(name, 0) for name in fetches), targets=targets, kernels=registry()
    )
    made = gather_updates(graph, asking(context))
    return [
        repr(node.attrs["program"]) if node.op.startswith("_Gathered") else node.name
        for node in made
        if "Apply" in node.op or "Gathered" in node.op
    ]


EVERY = [f"step{n}" for n in range(len(SHAPES))]


@pytest.mark.parametrize("op", dense_updates())
def test_updates_by_the_same_numbers_are_one(op: str) -> None:
    assert after(Training(op).graph) == [f"{len(SHAPES)} {op}"]


def test_a_few_stay_as_they_are() -> None:
    assert after(Training(shapes=SHAPES[:3]).graph) == EVERY[:3]


def test_large_ones_and_those_of_no_known_shape_stay() -> None:
    assert after(Training(shapes=(*SHAPES, (1 << 14,), None)).graph) == ["5 ApplyRMSProp", "step5", "step6"]


def test_what_is_seen_outside_stays() -> None:
    assert after(Training().graph, fetches=("step1",)) == ["step1", "4 ApplyRMSProp"]
    assert after(Training().graph, targets=("step0",)) == ["step0", "4 ApplyRMSProp"]


def test_other_numbers_are_another_group() -> None:
    training = Training()
    training.numbers[0] = training.graph.constant(np.float32(0.7))
    variables = training.variables[3:6]
    for place in (5, 6):
        training.step(place, variables, training.feeds[1], "ApplyRMSProp", {})
    assert after(training.graph) == ["5 ApplyRMSProp", "step5", "step6"]


def test_a_second_step_on_a_variable_is_none_of_them() -> None:
    training = Training()
    training.step(5, training.variables[:3], training.feeds[0], "ApplyRMSProp", {})
    assert after(training.graph) == ["5 ApplyRMSProp", "step5"]


def test_one_that_waits_for_another_is_none_of_them() -> None:
    graph = Training().graph
    first = graph["step0"]
    waiting = Node(
        name="step3",
        op=graph["step3"].op,
        inputs=graph["step3"].inputs,
        control_inputs=(first.name,),
        attrs=graph["step3"].attrs,
        device=graph["step3"].device,
        op_def=graph["step3"].op_def,
        output_types=graph["step3"].output_types,
    )
    changed = graph.rewritten(waiting if node.name == "step3" else node for node in graph)
    assert sorted(after(changed)) == ["4 ApplyRMSProp", "step3"]


def test_only_where_products_may_be_fused() -> None:
    apart = PassContext(targets=("train",), kernels=registry(), fuse_contractions=False)
    graph = Training().graph
    assert claimed(graph, apart, frozenset()) is graph


def gathered(training: Training) -> Any:
    made = gather_updates(training.graph, asking(PassContext(targets=("train",), kernels=registry())))
    (program,) = (node.attrs["program"] for node in made if node.op.startswith("_Gathered"))
    assert isinstance(program, GatheredUpdates)
    return program


class State:
    """Variables with values, as the program takes them: all first ones, then all of the next slot."""

    def __init__(self, training: Training, seed: int = 0) -> None:
        random = np.random.default_rng(seed)
        self.slots = len(training.update.slots)
        self.variables = []
        for _ in range(self.slots):
            for place, shape in enumerate(SHAPES):
                variable = Variable(f"v{place}", float32, TensorShape(shape))
                variable.assign(np.asarray(random.random(shape), np.float32))
                self.variables.append(variable)
        self.numbers = [np.float32(0.1 + 0.2 * n) for n in range(len(training.update.numbers))]

    def values(self) -> list[Any]:
        return [np.array(variable.read()) for variable in self.variables]


def gradients(seed: int) -> list[Any]:
    random = np.random.default_rng(seed)
    return [np.asarray(random.standard_normal(shape), np.float32) for shape in SHAPES]


def one_by_one(training: Training, state: State, given: Sequence[Any]) -> None:
    for place, gradient in enumerate(given):
        node = training.graph[f"step{place}"]
        function = registry().find(node).bind(node)
        function(*state.variables[place :: len(SHAPES)], *training.update.inputs(state.numbers, gradient))


def same(got: Sequence[Any], wanted: Sequence[Any]) -> None:
    for mine, right in zip(got, wanted, strict=True):
        assert mine.tobytes() == right.tobytes()


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(list(dense_updates())), st.lists(st.integers(0, 99), min_size=1, max_size=6), st.data()
)
def test_each_number_is_what_its_own_step_makes_of_it(op: str, seeds: list[int], data: st.DataObject) -> None:
    """Whoever reads a variable between steps, for how long, or sets it."""
    training = Training(op)
    program = gathered(training)
    together, apart = State(training), State(training)
    held: list[tuple[Any, Any]] = []
    for seed in seeds:
        given = gradients(seed)
        if data.draw(st.booleans()):
            given[1][0, 0] = data.draw(st.sampled_from([np.nan, np.inf, -0.0, 1e-45]))
        with np.errstate(all="ignore"):
            outputs = program.run(together.variables, together.numbers, given)
            one_by_one(training, apart, given)
        assert outputs == tuple(together.variables[: len(SHAPES)])
        same(together.values(), apart.values())
        for value, copy in held:
            same([value], [copy])
        what = data.draw(st.sampled_from(["nothing", "nothing", "read", "view", "let go", "assign"]))
        place = data.draw(st.integers(0, len(together.variables) - 1))
        if what in ("read", "view"):
            value = together.variables[place].read()
            value = value.reshape(-1)[:1] if what == "view" else value
            held.append((value, np.array(value)))
        elif what == "let go":
            held.clear()
        elif what == "assign":
            for state in (together, apart):
                variable = state.variables[place]
                variable.assign(np.full(variable.value_shape, 0.5, np.float32), validate_shape=False)


def test_variables_lie_together_until_somebody_reads_one() -> None:
    training = Training()
    program = gathered(training)
    state = State(training)

    def step() -> list[int]:
        """Return the addresses of the variables after another step."""
        program.run(state.variables, state.numbers, gradients(0))
        return [variable.read().ctypes.data for variable in state.variables if variable.value_shape]

    for _ in range(3):
        step()
    places = step()
    assert places == step()
    held = state.variables[0].read()[1:]
    before = held.copy()
    moved = step()
    # Only the one that was read is a copy, which the step changes where it lies.
    assert [now == then for now, then in zip(moved, places, strict=True)] == [False] + [True] * (
        len(moved) - 1
    )
    np.testing.assert_array_equal(held, before)
    del held
    for _ in range(8):
        step()
    places = step()
    assert places != moved
    assert places == step()


def test_variables_outlive_what_has_changed_them() -> None:
    training = Training()
    program = gathered(training)
    state = State(training)
    for _ in range(4):
        program.run(state.variables, state.numbers, gradients(0))
    values = state.values()
    del program
    same(state.values(), values)


def test_one_variable_under_two_names_is_changed_by_each() -> None:
    training = Training()
    program = gathered(training)
    together, apart = State(training), State(training)
    for state in (together, apart):
        for slot in range(state.slots):
            state.variables[slot * len(SHAPES) + 3] = state.variables[slot * len(SHAPES)]
    given = gradients(1)
    given[3] = np.resize(given[3], given[0].shape)
    program.run(together.variables, together.numbers, given)
    one_by_one(training, apart, given)
    same(together.values(), apart.values())


def test_an_error_is_of_the_step_that_it_is_in() -> None:
    training = Training()
    program = gathered(training)
    state = State(training)
    given = gradients(0)
    given[3] = np.zeros(8, np.float32)
    with pytest.raises(InvalidArgumentError, match="same shape") as caught:
        program.run(state.variables, state.numbers, given)
    assert caught.value.node_name == "step3"
    state.variables[4].destroy()
    with pytest.raises(FailedPreconditionError, match="uninitialized") as missing:
        program.run(state.variables, state.numbers, gradients(0))
    assert missing.value.node_name == "step4"
    with pytest.raises(InvalidArgumentError, match="rho is not a scalar") as wrong:
        program.run(state.variables, [np.float32(0), np.zeros(2, np.float32), *state.numbers[2:]], given)
    assert wrong.value.node_name == "step0"


@pytest.mark.parametrize("op", ["ApplyRMSProp", "ResourceApplyRMSProp"])
async def test_a_hot_step_changes_what_a_cold_one_changes(op: str, monkeypatch: pytest.MonkeyPatch) -> None:
    together = GatheredUpdates.together
    used: list[bool] = []

    def spy(self: GatheredUpdates, *given: Any) -> bool:
        used.append(together(self, *given))
        return used[-1]

    monkeypatch.setattr(GatheredUpdates, "together", spy)
    training = Training(op)
    graph = training.graph
    seen = {}
    graph.group(*training.steps, name="train")
    graph.group(*training.begin, name="begin")
    values = training.variables
    if op.startswith("Resource"):
        values = [graph.ops.ReadVariableOp(each, dtype="float32") for each in values]
    for hot in (False, True):
        async with fe.Session(graph, config=fe.Config(compile_hot_plans=hot)) as session:
            await session.run([], targets=["begin"])
            for run in range(9):
                feed = dict(zip(training.feeds, gradients(run), strict=True))
                await session.run([], feed, targets=["train"])
            seen[hot] = await session.run(values)
    same(seen[True], seen[False])
    assert used
    assert all(used)
