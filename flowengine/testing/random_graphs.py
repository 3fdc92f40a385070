"""Writes a random graph, one statement after another, from choices that Hypothesis makes.

A block of statements works on an environment of values with known type and shape. A conditional writes
two blocks between Switches and Merges, a loop writes one between Merges and NextIterations; both hand
results back to the block around them. Reads and writes of variables form one chain of control edges
through all of them, so that every legal order of execution has the same effects.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Final, TypeAlias

import numpy as np
from hypothesis import strategies as st

from flowengine.core import dtypes as dt
from flowengine.core.dtypes import DType
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.ir.opdef import OpRegistry
from flowengine.testing.random_ops import DrawnOp, OpChoice
from flowengine.testing.random_recurrence import Recurrence

#: Type and shape.
Kind: TypeAlias = tuple[DType, tuple[int, ...]]

_KINDS: Final[tuple[Kind, ...]] = tuple(
    (dtype, shape) for dtype in (dt.float32, dt.int32, dt.bool_) for shape in ((), (3,), (2, 3))
)
_BINARY: Final = ("Add", "Sub", "Mul", "Maximum", "Minimum", "SquaredDifference")
_UNARY: Final = ("Neg", "Abs", "Square", "Identity", "Sign", "ZerosLike", "OnesLike", "StopGradient")
_FLOAT_UNARY: Final = ("Tanh", "Floor", "Sigmoid", "Sin")
_COMPARE: Final = ("Less", "GreaterEqual", "Equal", "NotEqual")
_LOGICAL: Final = ("LogicalAnd", "LogicalOr")
_MAX_ITERATIONS: Final = 4


class GraphWriter:
    """One graph being written.

    placeholders  {tensor name: its kind} of what every run must feed
    feedable      the same of inner tensors that a run may feed
    setup         nodes that initialize variables
    targets       nodes that every run must run: the end of the chain of effects
    """

    def __init__(
        self,
        draw: st.DrawFn,
        *,
        variables: bool,
        loops: bool,
        conditionals: bool,
        failing: bool,
        max_statements: int,
        ops: Sequence[str | DrawnOp] | None = None,
        registry: OpRegistry | None = None,
    ) -> None:
        self.graph = Graph(registry=registry)
        self.placeholders: dict[str, Kind] = {}
        self.feedable: dict[str, Kind] = {}
        self.setup: list[str] = []
        self.targets: list[str] = []
        self._draw = draw
        #: The ops that are drawn instead of this package's own choice.
        self._chosen = None if ops is None else OpChoice(self.graph, draw, ops, self._pick_kind)
        self._max_statements = max_statements
        self._with_variables = variables
        self._variables: list[tuple[Tensor, Kind]] = []
        self._statements: list[Callable[[_GraphBlock], None]] = [self._write_op] * 6
        self._statements += [self._write_constant, self._write_split, self._write_tensor_array]
        self._statements += [self._write_conditional] * conditionals + [self._write_loop] * loops
        if loops:
            self._statements.append(self._write_there_and_back)
        self._statements += [self._write_division] * 8 * failing
        self._root = _GraphBlock(self.graph, depth=0)

    def write(self, depth: int) -> None:
        """Write placeholders, variables and the statements of the outermost block."""
        root = self._root
        root.depth = depth
        for number in range(self._draw(st.integers(1, 3))):
            kind = self._draw(st.sampled_from(_KINDS))
            tensor = self.graph.placeholder(kind[0], kind[1], name=f"p{number}")
            self.placeholders[tensor.name] = kind
            root.add(tensor, kind)
        if self._with_variables:
            for number in range(self._draw(st.integers(0, 2))):
                self._write_variable(number)
        if self._variables:
            self._statements += [self._write_update] * 3
        self._write_block(root)
        for tensor, kind in root.values[len(self.placeholders) :]:
            if not self.graph[tensor.node_name].control_inputs:
                self.feedable[tensor.name] = kind
        if root.last_effect is not None:
            self.targets.append(root.last_effect)

    def results(self) -> list[str]:
        """The tensors that a run may fetch."""
        ends = [] if self._chosen is None else self._chosen.ends
        return [*(tensor.name for tensor, _ in self._root.values), *ends]

    # -- statements ---------------------------------------------------------------------------------

    def _write_block(self, block: _GraphBlock) -> None:
        for _ in range(self._draw(st.integers(1, self._max_statements))):
            self._draw(st.sampled_from(self._statements))(block)

    def _pick(self, block: _GraphBlock, want: Callable[[Kind], bool]) -> tuple[Tensor, Kind] | None:
        fitting = [value for value in block.values if want(value[1])]
        return self._draw(st.sampled_from(fitting)) if fitting else None

    def _pick_kind(self, block: _GraphBlock, kind: Kind) -> Tensor:
        """A value of exactly this kind, made if the block has none."""
        found = self._pick(block, lambda k: k == kind)
        return found[0] if found is not None else self._constant(block, kind)

    def _constant(self, block: _GraphBlock, kind: Kind) -> Tensor:
        dtype, shape = kind
        start = self._draw(st.integers(-3, 3))
        numbers = np.arange(start, start + int(np.prod(shape, dtype=int))).reshape(shape)
        value = numbers % 2 == 0 if dtype is dt.bool_ else numbers
        with block.anchored():
            return self.graph.constant(value.astype(dtype.as_numpy_dtype), dtype)

    def _write_constant(self, block: _GraphBlock) -> None:
        kind = self._draw(st.sampled_from(_KINDS))
        block.add(self._constant(block, kind), kind)

    def _write_op(self, block: _GraphBlock) -> None:
        if self._chosen is not None:
            return self._chosen.write(block, is_root=block is self._root)
        ops = self.graph.ops
        draw = self._draw
        tensor, (dtype, shape) = draw(st.sampled_from(block.values))
        if dtype is dt.bool_:
            form = draw(st.sampled_from(("not", "logical", "select", "cast", "all")))
            if form == "not":
                block.add(ops.LogicalNot(tensor), (dtype, shape))
            elif form == "logical":
                other = self._pick_kind(block, (dtype, shape))
                block.add(getattr(ops, draw(st.sampled_from(_LOGICAL)))(tensor, other), (dtype, shape))
            elif form == "select":
                kind = (draw(st.sampled_from((dt.float32, dt.int32))), shape)
                yes, no = self._pick_kind(block, kind), self._pick_kind(block, kind)
                block.add(ops.Select(tensor, yes, no), kind)
            elif form == "cast":
                block.add(ops.Cast(tensor, DstT=dt.int32), (dt.int32, shape))
            else:
                axes = self._axes(block, shape)
                block.add(ops.All(tensor, axes), (dtype, ()))
            return
        form = draw(st.sampled_from(("binary", "unary", "compare", "cast", "sum", "broadcast")))
        if form == "binary":
            other = self._pick_kind(block, (dtype, shape))
            block.add(getattr(ops, draw(st.sampled_from(_BINARY)))(tensor, other), (dtype, shape))
        elif form == "unary":
            names = _UNARY + _FLOAT_UNARY if dtype is dt.float32 else _UNARY
            block.add(getattr(ops, draw(st.sampled_from(names)))(tensor), (dtype, shape))
        elif form == "compare":
            other = self._pick_kind(block, (dtype, shape))
            block.add(getattr(ops, draw(st.sampled_from(_COMPARE)))(tensor, other), (dt.bool_, shape))
        elif form == "cast":
            # Only exact or wrapping casts: a float outside of int32 has no defined value there.
            if dtype is dt.int32:
                block.add(ops.Cast(tensor, DstT=dt.float32), (dt.float32, shape))
            else:
                block.add(ops.Cast(tensor, DstT=dt.bool_), (dt.bool_, shape))
        elif form == "sum":
            block.add(ops.Sum(tensor, self._axes(block, shape)), (dtype, ()))
        else:
            other = self._pick_kind(block, (dtype, ()))
            block.add(ops.Add(tensor, other), (dtype, shape))

    def _write_division(self, block: _GraphBlock) -> None:
        """Fails where the divisor holds a zero."""
        found = self._pick(block, lambda kind: kind[0] is dt.int32)
        if found is not None:
            tensor, kind = found
            op = self._draw(st.sampled_from(("FloorDiv", "FloorMod", "TruncateDiv")))
            block.add(getattr(self.graph.ops, op)(self._pick_kind(block, kind), tensor), kind)

    def _axes(self, block: _GraphBlock, shape: tuple[int, ...]) -> Tensor:
        with block.anchored():
            return self.graph.constant(list(range(len(shape))), dt.int32, [len(shape)])

    def _write_split(self, block: _GraphBlock) -> None:
        """An op of several outputs."""
        found = self._pick(block, lambda kind: kind[1] == (2, 3))
        if found is not None:
            tensor, (dtype, _) = found
            for part in self.graph.ops.Unpack(tensor, num=2, axis=0):
                block.add(part, (dtype, (3,)))

    def _write_tensor_array(self, block: _GraphBlock) -> None:
        """Elements written one after another and gathered: a resource of the step, one an execution."""
        ops = self.graph.ops
        dtype = self._draw(st.sampled_from((dt.float32, dt.int32)))
        size, shape = self._draw(st.sampled_from(((3, ()), (2, (3,)))))
        with block.anchored():
            handle, flow = ops.TensorArrayV3(self.graph.constant(size, dt.int32), dtype=dtype)
        for index in self._draw(st.permutations(range(size))):
            value = self._pick_kind(block, (dtype, shape))
            flow = ops.TensorArrayWriteV3(handle, self._constant_int(block, index), value, flow)
        if self._draw(st.booleans()):
            with block.anchored():
                indices = self.graph.constant(list(range(size)), dt.int32)
            gathered = ops.TensorArrayGatherV3(handle, indices, flow, dtype=dtype, element_shape=shape)
            block.add(gathered, (dtype, (size, *shape)))
        else:
            read = ops.TensorArrayReadV3(handle, self._constant_int(block, 0), flow, dtype=dtype)
            block.add(read, (dtype, shape))

    # -- variables ----------------------------------------------------------------------------------

    def _write_variable(self, number: int) -> None:
        ops = self.graph.ops
        kind = self._draw(st.sampled_from([k for k in _KINDS if k[0] is not dt.bool_]))
        dtype, shape = kind
        initial = self._constant(self._root, kind)
        if self._draw(st.booleans()):
            variable = ops.VariableV2(dtype=dtype, shape=shape, name=f"v{number}")
            initializer = ops.Assign(variable, initial, name=f"v{number}/init").op
        else:
            variable = ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=f"v{number}", name=f"v{number}")
            initializer = ops.AssignVariableOp(variable, initial, name=f"v{number}/init")
        self.setup.append(initializer.name)
        self._variables.append((variable, kind))

    def _write_update(self, block: _GraphBlock) -> None:
        """Write a variable or read it, after the effects so far."""
        ops = self.graph.ops
        index = self._draw(st.integers(0, len(self._variables) - 1))
        _, kind = self._variables[index]
        value = self._pick_kind(block, kind)
        is_ref = self._variables[index][0].dtype.is_ref
        form = self._draw(st.sampled_from(("assign", "add", "sub", "read", "read")))
        with block.in_order():
            # A handle made under these control edges exists in this frame and branch.
            variable = self._variable_here(block, index)
            if form == "read":
                # An Identity of a reference shares the variable's buffer, and so what is written later.
                read = (
                    ops.DeepCopy(ops.Identity(variable))
                    if is_ref
                    else ops.ReadVariableOp(variable, dtype=kind[0])
                )
                block.add(read, kind)
                block.last_effect = read.node_name
            elif is_ref:
                op = {"assign": ops.Assign, "add": ops.AssignAdd, "sub": ops.AssignSub}[form]
                block.last_effect = op(variable, value).node_name
            else:
                assign = {
                    "assign": ops.AssignVariableOp,
                    "add": ops.AssignAddVariableOp,
                    "sub": ops.AssignSubVariableOp,
                }[form]
                block.last_effect = assign(variable, value).name

    def _variable_here(self, block: _GraphBlock, index: int) -> Tensor:
        known = block.handles.get(index)
        if known is not None:
            return known
        ops = self.graph.ops
        variable, (dtype, shape) = self._variables[index]
        if variable.dtype.is_ref:
            again: Tensor = ops.VariableV2(dtype=dtype, shape=shape, shared_name=variable.node_name)
        else:
            again = ops.VarHandleOp(dtype=dtype, shape=shape, shared_name=variable.node_name)
        return again

    # -- conditionals -------------------------------------------------------------------------------

    def _write_conditional(self, block: _GraphBlock) -> None:
        if block.depth == 0:
            return self._write_op(block)
        ops = self.graph.ops
        with block.in_order():
            pred = ops.Identity(self._pick_kind(block, (dt.bool_, ())))
        captured = self._draw(st.lists(st.sampled_from(block.values), min_size=1, max_size=3))
        sides = [_GraphBlock(self.graph, block.depth - 1), _GraphBlock(self.graph, block.depth - 1)]
        anchors = ops.Switch(pred, pred)
        for side, anchor in zip(sides, anchors, strict=True):
            side.anchor = ops.Identity(anchor).node_name
            side.last_effect = side.anchor if block.last_effect is not None else None
        for tensor, kind in captured:
            for side, value in zip(sides, ops.Switch(tensor, pred), strict=True):
                side.add(value, kind)
        for index, handle in block.handles.items():
            if not handle.dtype.is_ref:
                for side, branch in zip(sides, ops.Switch(handle, pred), strict=True):
                    side.handles[index] = branch
        for side in sides:
            self._write_block(side)
        kinds = [kind for _, kind in sides[0].values]
        had_effects = any(side.last_effect not in (None, side.anchor) for side in sides)
        for number in range(self._draw(st.integers(1, 2))):
            kind = self._draw(st.sampled_from(kinds))
            results = [self._handed_over(side, self._pick_kind(side, kind)) for side in sides]
            merged = ops.Merge(results)
            block.add(merged.output, kind)
            if number == 0:
                block.add(merged.value_index, (dt.int32, ()))
                if had_effects:
                    block.last_effect = merged.output.node_name
        return None

    # -- loops --------------------------------------------------------------------------------------

    def _write_there_and_back(self, block: _GraphBlock) -> None:
        if block.depth == 0:
            return self._write_op(block)
        if all(kind[0] is dt.bool_ for _, kind in block.values):
            return self._write_op(block)
        pair = Recurrence(
            self.graph,
            self._draw,
            lambda: _GraphBlock(self.graph, block.depth - 1),
            self._write_block,
            self._pick_kind,
        )
        return pair.write(block)

    def _write_loop(self, block: _GraphBlock) -> None:
        if block.depth == 0:
            return self._write_op(block)
        ops, draw = self.graph.ops, self._draw
        frame = self.graph.scopes.unique_name("loop")
        options: dict[str, Any] = {"frame_name": frame, "parallel_iterations": draw(st.integers(1, 4))}
        carried = draw(st.lists(st.sampled_from(block.values), max_size=2))
        invariant = draw(st.lists(st.sampled_from(block.values), max_size=2))
        limit = self._constant_int(block, draw(st.integers(0, _MAX_ITERATIONS)))
        with block.in_order():
            starts = [ops.Identity(self._constant_int(block, 0)), *(ops.Identity(t) for t, _ in carried)]
        kinds = [(dt.int32, ()), *(kind for _, kind in carried)]
        enters = [ops.Enter(start, **options) for start in starts]
        merges = [ops.Merge([enter, enter]).output for enter in enters]
        bound = ops.Enter(limit, is_constant=True, **options)
        goes_on = ops.LoopCond(ops.Less(merges[0], bound))
        switches = [ops.Switch(merge, goes_on) for merge in merges]
        body = _GraphBlock(self.graph, block.depth - 1)
        body.anchor = ops.Identity(switches[0].output_true).node_name
        body.last_effect = body.anchor if block.last_effect is not None else None
        for switch, kind in zip(switches, kinds, strict=True):
            body.add(ops.Identity(switch.output_true), kind)
        for tensor, kind in invariant:
            body.add(ops.Enter(tensor, is_constant=True, **options), kind)
        self._hand_in_variables(block, body, options)
        counter = body.values[0][0]
        self._write_block(body)
        next_values = [ops.Add(counter, self._constant_int(body, 1))]
        next_values += [self._pick_kind(body, kind) for kind in kinds[1:]]
        had_effects = body.last_effect not in (None, body.anchor)
        for merge, value in zip(merges, next_values, strict=True):
            self.graph.set_back_edge(
                merge, 1, ops.NextIteration(self._handed_over(body, value, not invariant))
            )
        for switch, kind in zip(switches, kinds, strict=True):
            block.add(ops.Exit(switch.output_false), kind)
        if had_effects:
            block.last_effect = block.values[-len(kinds)][0].node_name
        return None

    def _hand_in_variables(self, block: _GraphBlock, body: _GraphBlock, options: dict[str, Any]) -> None:
        """Variables may come into a loop through Enters, or be named anew inside it."""
        ops = self.graph.ops
        for index, (variable, _) in enumerate(self._variables):
            handle = variable if block is self._root else block.handles.get(index)
            if handle is not None and self._draw(st.integers(0, 3)):
                enter = ops.RefEnter if handle.dtype.is_ref else ops.Enter
                body.handles[index] = enter(handle, is_constant=True, **options)

    def _handed_over(self, block: _GraphBlock, value: Tensor, anchored: bool = True) -> Tensor:
        """Return a block's value as its surroundings see it: after its effects, else in one of several forms.

        anchored    whether every value of the block is live only when the block runs. A loop's invariants
                    are live in its last iteration too: handed on as they are, they would never let it end.
        """
        form = self._draw(st.sampled_from(("after", "plain", "forwarded")))
        if form == "after" or not anchored or block.last_effect not in (None, block.anchor):
            with block.in_order():
                value = self.graph.ops.Identity(value)
        elif form == "forwarded":
            value = self.graph.ops.Identity(value)
        return value

    def _constant_int(self, block: _GraphBlock, value: int) -> Tensor:
        with block.anchored():
            return self.graph.constant(value, dt.int32)


class _GraphBlock:
    """The values of one block, and where in the graph it stands.

    anchor        a node that is live exactly when the block runs; what has no inputs hangs from it
    last_effect   the node after which the next effect on state comes
    handles       {index of a variable: what refers to it here}
    """

    def __init__(self, graph: Graph, depth: int) -> None:
        self.depth = depth
        self.values: list[tuple[Tensor, Kind]] = []
        self.anchor: str | None = None
        self.last_effect: str | None = None
        self.handles: dict[int, Tensor] = {}
        self._graph = graph

    def add(self, tensor: Tensor, kind: Kind) -> None:
        self.values.append((tensor, kind))

    def anchored(self) -> AbstractContextManager[None]:
        """Inside, nodes run when the block does."""
        return self._graph.control_dependencies([] if self.anchor is None else [self.anchor])

    def in_order(self) -> AbstractContextManager[None]:
        """Inside, nodes run when the block does and after its effects so far."""
        return self._graph.control_dependencies(
            [name for name in dict.fromkeys((self.anchor, self.last_effect)) if name is not None]
        )
