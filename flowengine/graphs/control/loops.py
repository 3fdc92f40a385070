"""`graph.while_loop`: a frame of Enter, Merge, Switch, NextIteration and Exit, as TensorFlow 1 writes it.

Enter -> Merge -> Switch -> Identity -> body -> NextIteration -> Merge
           |        | LoopCond
           +-> cond-+-> Exit
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.graphs.control.contexts import ControlContext
from flowengine.graphs.conversion import convert
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError, at_construction
from flowengine.graphs.structures import assert_alike, flatten, pack_like, parts_of
from flowengine.graphs.tensor import Tensor
from flowengine.ir.graph import OutputPort

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


class LoopContext(ControlContext):
    """The iterations of a loop: one frame, and what it carries from one iteration to the next.

    attrs       the attributes of each Enter into it
    merges      each variable at the start of an iteration, as the condition sees it
    variables   each variable in an iteration that continues, as the body sees it; empty before the condition
                is built
    enters      the Enter of each variable's first value
    exits       each variable when the loop has ended
    """

    is_loop: ClassVar[bool] = True
    collection: ClassVar[str] = "while_context"

    def __init__(
        self, graph: Graph, name: str, parallel_iterations: int = 10, swap_memory: bool = False
    ) -> None:
        if parallel_iterations < 1:
            raise ConstructionValueError(f"parallel_iterations is at least 1, not {parallel_iterations}")
        super().__init__(graph, name)
        self.attrs: dict[str, Any] = {"frame_name": name, "parallel_iterations": parallel_iterations}
        self.swap_memory = swap_memory
        self.merges: list[Tensor] = []
        self.variables: list[Tensor] = []
        self.goes_on: Tensor | None = None
        self.enters: list[Tensor] = []
        self.exits: list[Tensor] = []
        self.maximum_iterations: Tensor | None = None
        self._last: list[Tensor] = []
        #: The Enters of values that are the same in every iteration.
        self._constants: set[str] = set()
        given = graph.scopes.control_inputs
        #: The nodes that the Enters of variables wait for, in the context around.
        self._controls = given if self.outer is None else self.outer.awaited(given)

    @property
    def anchors(self) -> list[str]:
        tensors = [self.goes_on, *self.merges[:1], *self.variables[:1], self.maximum_iterations]
        return [each.node_name for each in tensors if each is not None]

    # -- variables ---------------------------------------------------------------------------------

    def carry(self, initial: Tensor, shape: TensorShape | None = None) -> Tensor:
        """A variable: as the condition sees it, or as the body does where it is decided already.

        initial   a tensor of the context around
        shape     its shape in every iteration; by default the shape of `initial`
        """
        scopes = self.graph.scopes
        with self.left():
            outside = initial if self.outer is None else self.outer.bring(initial)
        with self.left(keeps_membership=True):
            scopes.control_inputs = self._controls
            enter = self._enter(outside, is_constant=False)
        self.enters.append(enter)
        with self.left(keeps_membership=True):
            ops = self.graph.ops
            kind = ops.RefMerge if enter.dtype.is_ref else ops.Merge
            merge: Tensor = kind([enter, enter], name="Merge").output
            if shape is not None:
                self._relax(merge, initial, shape)
        self.merges.append(merge)
        if self.goes_on is None:
            self.pivot = self.pivot or merge.node_name
            return merge
        return self._decided(merge)

    def decide(self, condition: Tensor) -> None:
        """Let the loop go on while this holds: a single bool of this context."""
        if condition.dtype.base is not dtypes.bool_ or condition.shape.rank not in (0, None):
            raise ConstructionTypeError(
                f"the condition of a loop is one bool; '{condition.name}' is {condition.dtype.base} of "
                f"shape {condition.shape}"
            )
        with self.left(keeps_membership=True):
            self.goes_on = self.graph.ops.LoopCond(condition, name="LoopCond")
        for merge in self.merges:
            self._decided(merge)
        self.pivot = self.variables[0].node_name

    def close(self, following: Sequence[Tensor]) -> list[Tensor]:
        """The last values, in the context around, where these are the variables of the next iteration."""
        ops = self.graph.ops
        for position, (merge, value) in enumerate(zip(self.merges, following, strict=True)):
            self._check(position, merge, value)
        # Built inside, so that constants of the loop enter an iteration only while the loop continues.
        with self.entered():
            for merge, value in zip(self.merges, following, strict=True):
                back = ops.RefNextIteration if value.dtype.is_ref else ops.NextIteration
                self.graph.set_back_edge(merge, 1, back(value, name="NextIteration"))
        with self.left(results=True):
            self.exits = [
                (ops.RefExit if last.dtype.is_ref else ops.Exit)(last, name="Exit") for last in self._last
            ]
        return self.exits

    def _decided(self, merge: Tensor) -> Tensor:
        goes_on = self.goes_on
        assert goes_on is not None, "a variable is split where the condition is known"
        with self.left(keeps_membership=True):
            ops = self.graph.ops
            is_ref = merge.dtype.is_ref
            switch = (ops.RefSwitch if is_ref else ops.Switch)(merge, goes_on, name="Switch")
            inside: Tensor = (ops.RefIdentity if is_ref else ops.Identity)(
                switch.output_true, name="Identity"
            )
        self._last.append(switch.output_false)
        self.variables.append(inside)
        return inside

    def _relax(self, merge: Tensor, initial: Tensor, shape: TensorShape) -> None:
        if shape.relax_with(initial.shape) != shape:
            raise ConstructionValueError(
                f"'{initial.name}' is of shape {initial.shape}, which does not fit shape_invariants {shape}"
            )
        self.graph.relax_shape(merge.node_name, shape)

    def _check(self, position: int, merge: Tensor, value: Tensor) -> None:
        if value.dtype.base is not merge.dtype.base:
            raise ConstructionTypeError(
                f"variable {position} of the loop is {merge.dtype.base}, and the body makes it "
                f"{value.dtype.base} ('{value.name}')"
            )
        known = merge.shape
        if known.relax_with(value.shape) != known:
            raise ConstructionValueError(
                f"variable {position} of the loop is of shape {known}, and the body makes it {value.shape} "
                f"('{value.name}'): say what is the same in every iteration by shape_invariants"
            )

    # -- constants of the loop ---------------------------------------------------------------------

    def _enter(self, tensor: Tensor, *, is_constant: bool) -> Tensor:
        ops = self.graph.ops
        make = ops.RefEnter if tensor.dtype.is_ref else ops.Enter
        found: Tensor = make(tensor, is_constant=is_constant, name="Enter", **self.attrs)
        return found

    def _captured(self, tensor: Tensor) -> Tensor:
        found = self._enter(tensor, is_constant=True)
        self._constants.add(found.node_name)
        return found

    def _needs_pivot(self, inputs: Sequence[OutputPort]) -> bool:
        # Nodes that depend on constants of the loop alone would run once more, after the last iteration.
        return all(port.node in self._constants for port in inputs)


def while_loop(
    graph: Graph,
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    swap_memory: bool = False,
    maximum_iterations: Any = None,
    name: str | None = None,
) -> Any:
    """See `Graph.while_loop`."""
    is_list = isinstance(loop_vars, list | tuple)
    with graph.name_scope(name or "while") as scope:
        loop = LoopContext(graph, scope + "while_context", parallel_iterations, swap_memory)
        initial = [convert(graph, each) for each in flatten(loop_vars)]
        shapes = _shapes_like(loop_vars, shape_invariants, len(initial))
        limit = None
        if maximum_iterations is not None:
            limit = convert(graph, maximum_iterations, name="maximum_iterations")
            if not limit.dtype.is_integer or limit.shape.rank not in (0, None):
                raise ConstructionTypeError(
                    f"maximum_iterations is one integer; '{limit.name}' is {limit.dtype.base} of shape "
                    f"{limit.shape}"
                )
            loop.maximum_iterations = limit
            zero = graph.constant(0, limit.dtype.base, name="iteration_counter")
            loop.carry(zero)
        elif not initial:
            raise ConstructionValueError("a loop without variables never ends: there are no loop_vars")
        first = len(loop.merges)
        for tensor, shape in zip(initial, shapes, strict=True):
            loop.carry(tensor, shape)
        with loop.entered():
            seen = pack_like(loop_vars, loop.merges[first:])
            decision = convert(graph, cond(*seen) if is_list else cond(seen), dtypes.bool_)
            if limit is not None:
                decision = graph.ops.LogicalAnd(graph.ops.Less(loop.merges[0], limit), decision)
            loop.decide(loop.bring(decision))
            counted = [graph.ops.AddV2(loop.variables[0], 1, name="iteration")] if limit is not None else []
            within = pack_like(loop_vars, loop.variables[first:])
            made = body(*within) if is_list else body(within)
            following = _following(loop, loop_vars, made, loop.merges[first:])
        try:
            exits = loop.close([*counted, *following])
        except InvalidArgumentError as error:
            raise at_construction(error) from None
        graph.note_context(loop)
        return pack_like(loop_vars, exits[first:])


def _following(loop: LoopContext, loop_vars: Any, made: Any, merges: Sequence[Tensor]) -> list[Tensor]:
    """Convert the results of the body to tensors of the loop: one for each variable."""
    if isinstance(loop_vars, list | tuple) and len(loop_vars) == 1 and not _is_alike(loop_vars, made):
        made = [made]
    assert_alike(loop_vars, made, "loop_vars and the result of the body")
    return [
        loop.bring(convert(loop.graph, value, merge.dtype.base))
        for value, merge in zip(flatten(made), merges, strict=True)
    ]


def _is_alike(loop_vars: Any, made: Any) -> bool:
    return isinstance(made, list | tuple) and len(made) == len(loop_vars)


def _shapes_like(loop_vars: Any, invariants: Any, count: int) -> list[TensorShape | None]:
    """The invariant of each variable, None where there is none; at a leaf stands a shape."""
    if invariants is None:
        return [None] * count
    parts = parts_of(loop_vars)
    if parts is None:
        return [invariants if invariants is None else TensorShape(invariants)]
    given = parts_of(invariants)
    if given is None or isinstance(invariants, TensorShape) or len(given) != len(parts):
        raise ConstructionValueError(
            f"shape_invariants have the structure of loop_vars, a shape in each place: not {invariants!r}"
        )
    return [
        shape
        for part, each in zip(parts, given, strict=True)
        for shape in _shapes_like(part, each, len(flatten(part)))
    ]
