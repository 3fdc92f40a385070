"""`Optimizer`: what optimizers have in common: gradients of a loss, slots, and the step that applies them.

    train = fe.optimizers.Adam(1e-3).minimize(loss, global_step=step)
    await session.initialize()
    await session.run(train)

An optimizer keeps values beside a variable, such as a moving average of its gradient, in variables of the
same shape: its *slots*. They, the nodes of a step and the nodes' names are TensorFlow's, so that a checkpoint
of either goes on in the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.gradients.differentiate import gradients
from flowengine.gradients.values import Gradient, IndexedSlices
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Operation, Tensor
from flowengine.graphs.variables import keys
from flowengine.graphs.variables.initializers import Initializer, zeros
from flowengine.graphs.variables.partitioned import PartitionedVariable
from flowengine.graphs.variables.saved_slice import SavedSlice
from flowengine.graphs.variables.variable import GraphVariable

#: A number that the step goes by: Python's, or a Tensor, as of a schedule.
Hyper: TypeAlias = Any
#: A gradient and its variable.
Pair: TypeAlias = tuple[Gradient | None, GraphVariable]


class Optimizer:
    """An optimizer of the variables of one or more graphs. Its subclasses say which ops make its step.

    name          of the scope of its nodes, and of its slots
    op            X of the ops `ApplyX`, `ResourceApplyX`, `SparseApplyX` and `ResourceSparseApplyX`
    slot_inputs   {input of the op: the slot that it takes}
    use_locking   an attribute of its nodes for TensorFlow; here updates are always atomic

    `variables` are by default the graph's collection "trainable_variables"; `global_step` is a variable that
    each step increments; `grad_loss`, of the loss's shape, multiplies the gradient; `gate`, `aggregation` and
    `colocate` are those of `flowengine.gradients`. Its methods raise InvalidArgumentError for a loss that
    depends on none of the variables, and for gradients that do not fit them.

    >>> class HalfSpeed(fe.optimizers.SGD):
    ...     def compute_gradients(self, loss, variables=None, **options):
    ...         return [(grad / 2.0, w) for grad, w in super().compute_gradients(loss, variables, **options)]
    >>> graph = fe.Graph()
    >>> w = graph.variable(4.0)
    >>> step = HalfSpeed(0.25).minimize(w * w)
    >>> with fe.blocking.Session(graph) as session:
    ...     result = fe.blocking.loop(session, step, steps=1, quiet=True)
    ...     print(session.run(w))
    3.0
    """

    def __init__(
        self, name: str, op: str, slot_inputs: Mapping[str, str] | None = None, *, use_locking: bool = False
    ) -> None:
        self.name = name
        self.use_locking = use_locking
        #: The ops are `ApplyX`, `ResourceApplyX`, `SparseApplyX` and `ResourceSparseApplyX` of this X.
        self._op = op
        #: {input of the op: the slot that it takes}
        self._slot_inputs = dict(slot_inputs or {})
        self._slots: dict[tuple[Graph, str, str], GraphVariable] = {}
        self._others: dict[tuple[Graph, str], GraphVariable] = {}

    def __repr__(self) -> str:
        return f"<{type(self).__name__} '{self.name}' slots={self.slot_names}>"

    # -- methods for programs ------------------------------------------------------------------------

    def minimize(
        self,
        loss: Tensor,
        *,
        global_step: GraphVariable | None = None,
        variables: Iterable[GraphVariable | PartitionedVariable] | None = None,
        grad_loss: Any = None,
        name: str | None = None,
    ) -> Operation:
        """Return the operation of one training step: `compute_gradients`, then `apply_gradients`.

        loss, variables, grad_loss   as for `compute_gradients`
        global_step, name            as for `apply_gradients`

        Raises InvalidArgumentError if the loss depends on none of the variables.
        """
        pairs = self.compute_gradients(loss, variables, grad_loss=grad_loss)
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Tensor,
        variables: Iterable[GraphVariable | PartitionedVariable] | None = None,
        *,
        grad_loss: Any = None,
        gate: str = "none",
        aggregation: str = "add",
        colocate: bool = False,
    ) -> list[Pair]:
        """Return the gradient of a loss for each variable, None for one that it does not depend on.

        loss        a floating-point tensor; if it has several elements, their sum
        variables   by default the graph's collection "trainable_variables"
        grad_loss   a factor of the gradient, of the loss's shape
        gate, aggregation, colocate   as for `flowengine.gradients`, with its errors
        """
        graph = loss.graph
        given = graph.collection(keys.TRAINABLE_VARIABLES) if variables is None else variables
        listed = list(parts_of(given))
        if not listed:
            raise InvalidArgumentError(
                "there is no variable to optimize: the graph has no trainable one; give variables="
            )
        found = gradients(
            loss,
            [each.handle for each in listed],
            None if grad_loss is None else [grad_loss],
            gate=gate,
            aggregation=aggregation,
            colocate=colocate,
        )
        return list(zip(found, listed, strict=True))

    def apply_gradients(
        self,
        pairs: Iterable[Pair],
        *,
        global_step: GraphVariable | None = None,
        name: str | None = None,
    ) -> Operation:
        """Return the operation that changes each variable by its gradient, and counts the step.

        pairs         as `compute_gradients` returns them; those without a gradient are left out
        global_step   a variable that is one more after the step
        name          of the operation: the optimizer's own if none is given

        It is listed under "train_op". Slots that the variables do not have yet are made. Raises
        InvalidArgumentError where no variable has a gradient, and for a sparse gradient of a variable with a
        constraint.
        """
        present = [(gradient, variable) for gradient, variable in pairs if gradient is not None]
        if not present:
            raise InvalidArgumentError(
                f"{self.name}: all gradients are None: the loss depends on none of the variables"
            )
        graph = present[0][1].graph
        with graph.scopes.outside():
            self._create_slots(graph, [variable for _, variable in present])
        with graph.name_scope(name or self.name) as scope:
            step = self._prepare(OptimizerNumbers(graph))
            for dtype in dict.fromkeys(variable.dtype for _, variable in present):
                step.of_type(dtype)
            updates = [self._updated(gradient, variable, step) for gradient, variable in present]
            if global_step is None:
                done = self._finish(step, updates, scope)
            else:
                with graph.control_dependencies([self._finish(step, updates, "update")]):
                    done = global_step.assign_add_op(1, name=scope)
        graph.collections.add_once(keys.TRAIN_OP, done)
        return done

    # -- slots ---------------------------------------------------------------------------------------

    @property
    def slot_names(self) -> list[str]:
        """The names of the slots that it has made, in order."""
        return sorted({slot for _, _, slot in self._slots})

    def slot(self, variable: GraphVariable, name: str) -> GraphVariable | None:
        """Return the slot of a variable, or None if it has none of this name."""
        return self._slots.get((variable.graph, variable.name, name))

    def variables(self) -> list[GraphVariable]:
        """Return all variables that it has made: slots, and those that all variables share."""
        return [*self._others.values(), *self._slots.values()]

    def _create_slots(self, graph: Graph, variables: Sequence[GraphVariable]) -> None:
        """Make what the step keeps beside the variables: by default slots of zeros."""
        for variable in variables:
            for slot in self._slot_inputs.values():
                self._make_slot(variable, slot)

    def _make_slot(self, variable: GraphVariable, slot: str, initial: Initializer | None = None) -> None:
        """A slot of the variable's shape, type and kind, beside it, unless there is one."""
        graph = variable.graph
        key = (graph, variable.name, slot)
        if key not in self._slots:
            self._slots[key] = slot_variable(variable, initial or zeros(), self.name)

    def _make_shared(self, graph: Graph, name: str, value: float, beside: GraphVariable) -> None:
        """A number that all variables share, unless there is one."""
        if (graph, name) not in self._others:
            with graph.colocate_with(beside.handle):
                made = graph.variable(
                    value, name=name, dtype="float32", trainable=False, use_resource=beside.is_resource
                )
            self._others[graph, name] = made

    def _shared(self, graph: Graph, name: str) -> GraphVariable:
        return self._others[graph, name]

    # -- the step ------------------------------------------------------------------------------------

    def _prepare(self, step: OptimizerNumbers) -> OptimizerNumbers:
        """Add the numbers of this step: {input of the op: number} in `step.given`."""
        return step

    def _attrs(self) -> dict[str, Any]:
        """Attributes of the op beside its lock."""
        return {}

    def _updated(self, gradient: Gradient, variable: GraphVariable, step: OptimizerNumbers) -> Operation:
        """The operation that changes one variable, held to its constraint."""
        graph = step.graph
        with graph.name_scope(f"update_{variable.op.name}"), graph.colocate_with(variable.handle):
            if isinstance(gradient, IndexedSlices):
                if variable.constraint is not None:
                    raise InvalidArgumentError(
                        f"variable '{variable.name}' has a constraint, and a gradient of some rows only: "
                        "a constraint is for the whole"
                    )
                return self._apply_sparse(gradient, variable, step)
            changed = self._apply_dense(gradient, variable, step)
            if variable.constraint is not None:
                with graph.control_dependencies([changed]):
                    changed = variable.assign_op(variable.constraint(variable.read()))
            return changed

    def _apply_dense(self, gradient: Tensor, variable: GraphVariable, step: OptimizerNumbers) -> Operation:
        return self._applied("Apply", variable, step, {"grad": gradient})

    def _apply_sparse(
        self, gradient: IndexedSlices, variable: GraphVariable, step: OptimizerNumbers
    ) -> Operation:
        slices = without_repeats(step.graph, gradient)
        return self._applied(
            "SparseApply", variable, step, {"grad": slices.values, "indices": slices.indices}
        )

    def _applied(
        self, kind: str, variable: GraphVariable, step: OptimizerNumbers, own: Mapping[str, Tensor]
    ) -> Operation:
        """The op of this kind for a variable, its slots, the step's numbers and its gradient."""
        prefix = "Resource" if variable.is_resource else ""
        make = getattr(step.graph.ops, f"{prefix}{kind}{self._op}")
        slots = {}
        for taken, name in self._slot_inputs.items():
            slot = self.slot(variable, name)
            assert slot is not None
            slots[taken] = slot.handle
        numbers = step.of_type(variable.dtype)
        made = make(
            var=variable.handle, **slots, **numbers, **own, use_locking=self.use_locking, **self._attrs()
        )
        return made if isinstance(made, Operation) else _operation(made)

    def _finish(self, step: OptimizerNumbers, updates: Sequence[Operation], name: str) -> Operation:
        """The operation that has done all updates."""
        return step.graph.group(*updates, name=name)


class OptimizerNumbers:
    """The numbers of one step, as tensors of each type that variables need.

    given   {input of the op: a Python number or a Tensor}
    typed   numbers that have their type already, such as a count of steps
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.given: dict[str, tuple[Hyper, str]] = {}
        self.typed: dict[str, Tensor] = {}
        self._made: dict[tuple[str, DType], Tensor] = {}

    def add(self, taken: str, value: Hyper, name: str) -> None:
        """A number for an input of the op, under the name of its node."""
        if hasattr(value, "__flowengine_tensor__"):
            value = value.__flowengine_tensor__(self.graph, None, None)
        self.given[taken] = value, name

    def of_type(self, dtype: DType) -> dict[str, Tensor]:
        """All of them for a variable of this type."""
        return {taken: self.number(taken, dtype) for taken in self.given} | self.typed

    def number(self, taken: str, dtype: DType) -> Tensor:
        """One of them; the same tensor each time."""
        key = taken, dtype
        if key not in self._made:
            self._made[key] = self._tensor(*self.given[taken], dtype)
        return self._made[key]

    def one_of(self, value: Hyper, name: str, dtype: DType) -> Tensor:
        """A number that is no input of the op."""
        if (name, dtype) not in self._made:
            self._made[name, dtype] = self._tensor(value, name, dtype)
        return self._made[name, dtype]

    def _tensor(self, value: Hyper, name: str, dtype: DType) -> Tensor:
        if not isinstance(value, Tensor):
            return self.graph.constant(value, dtype, name=name)
        if value.dtype.base is dtype:
            return value
        cast: Tensor = self.graph.ops.Cast(value, DstT=dtype)
        return cast


def slot_variable(
    variable: GraphVariable, initial: Any, name: str, *, dtype: DType | None = None
) -> GraphVariable:
    """A variable of another's shape and kind beside it: `w/Adam`, `w/Adam_1`, ... for one called `w`."""
    graph = variable.graph
    shape: TensorShape = variable.shape
    if not shape.is_fully_defined:
        start = variable.initial_value
        if start is None:
            raise InvalidArgumentError(
                f"'{variable.name}' needs a known shape or an initial value to have a slot"
            )
        pattern = start

        def initial_like(graph: Graph, shape: Any, dtype: DType) -> Tensor:
            like: Tensor = graph.ops.ZerosLike(pattern)
            return like

        initial = initial_like(graph, shape, variable.dtype)
    with (
        graph.variable_scope(None, default_name=f"{variable.op.name}/{name}", partitioner=None) as scope,
        graph.name_scope(None),
        graph.colocate_with(variable.handle),
    ):
        made: GraphVariable = graph.variable(
            initial,
            name=f"{scope.name}/",
            shape=shape if shape.is_fully_defined else None,
            dtype=dtype or variable.dtype,
            trainable=False,
            use_resource=variable.is_resource,
            validate_shape=shape.is_fully_defined,
        )
    part = variable.save_slice
    if part is not None:
        own = made.op.name.removeprefix(f"{variable.op.name}/")
        made.save_slice = SavedSlice(f"{part.full_name}/{own}", part.full_shape, part.offset, part.shape)
    return made


def without_repeats(graph: Graph, slices: IndexedSlices) -> IndexedSlices:
    """The same slices with each index once: those of equal index added up."""
    ops = graph.ops
    unique, positions = ops.Unique(slices.indices)
    count = ops.StridedSlice(ops.Shape(unique), [0], [1], [1], shrink_axis_mask=1)
    summed = ops.UnsortedSegmentSum(slices.values, positions, count)
    return IndexedSlices(summed, unique, slices.dense_shape)


def parts_of(variables: Iterable[GraphVariable | PartitionedVariable]) -> Iterator[GraphVariable]:
    """The variables, parts one by one."""
    for each in variables:
        if isinstance(each, PartitionedVariable):
            yield from each.parts
        else:
            yield each


def _operation(made: Tensor) -> Operation:
    return made.op


__all__ = ["Hyper", "Optimizer", "OptimizerNumbers", "Pair", "parts_of", "slot_variable", "without_repeats"]
