"""`graph.cond` and its kin: Switches, two branches, and Merges, as TensorFlow 1 writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.graphs.control.contexts import BranchContext
from flowengine.graphs.conversion import convert, stands_for_tensor
from flowengine.graphs.errors import ConstructionTypeError
from flowengine.graphs.structures import assert_alike, flatten, pack_like
from flowengine.graphs.tensor import Operation, Tensor

if TYPE_CHECKING:
    from flowengine.graphs.graph import Graph


def cond(
    graph: Graph,
    pred: Any,
    true_fn: Callable[[], Any],
    false_fn: Callable[[], Any],
    name: str | None = None,
) -> Any:
    """See `Graph.cond`."""
    if isinstance(pred, bool):
        raise ConstructionTypeError(
            f"pred is {pred}, not a tensor: call the function of that branch yourself"
        )
    if not all(callable(function) for function in (true_fn, false_fn)):
        raise ConstructionTypeError(
            "the branches are functions without arguments: cond(pred, true_fn, false_fn)"
        )
    ops = graph.ops
    with graph.name_scope(name or "cond") as scope:
        decides = convert(graph, pred, dtypes.bool_)
        switch = ops.Switch(decides, decides, name="Switch")
        pivot_true = ops.Identity(switch.output_true, name="switch_t")
        pivot_false = ops.Identity(switch.output_false, name="switch_f")
        kept = ops.Identity(decides, name="pred_id")
        on_true = BranchContext(graph, scope + "cond_text", kept, 1, pivot_true.node_name)
        on_false = BranchContext(graph, scope + "cond_text_1", kept, 0, pivot_false.node_name)
        with on_true.entered():
            made_true = true_fn()
        with on_false.entered():
            made_false = false_fn()
        assert_alike(made_true, made_false, "the results of the branches")
        merged = [
            _merged(graph, (on_true, on_false), pair)
            for pair in zip(flatten(made_true), flatten(made_false), strict=True)
        ]
        graph.note_context(on_true)
        graph.note_context(on_false)
        return pack_like(made_true, merged)


def case(
    graph: Graph,
    pred_fn_pairs: Sequence[tuple[Any, Callable[[], Any]]] | Mapping[Any, Callable[[], Any]],
    default: Callable[[], Any] | None = None,
    exclusive: bool = False,
    name: str | None = None,
) -> Any:
    """See `Graph.case`."""
    pairs = list(pred_fn_pairs.items()) if isinstance(pred_fn_pairs, Mapping) else pred_fn_pairs
    if not isinstance(pairs, list | tuple) or not pairs or not all(map(_is_case, pairs)):
        raise ConstructionTypeError("case takes pairs of a bool tensor and a function without arguments")
    with graph.name_scope(name or "case"):
        preds = [convert(graph, pred, dtypes.bool_) for pred, _ in pairs]
        functions = [function for _, function in pairs]
        checks: list[Operation] = []
        if exclusive:
            shown = ["more than one of the conditions of case holds", *preds]
            checks.append(graph.assert_that(graph.ops.LessEqual(_how_many(graph, preds), 1), shown))
        if default is None:
            shown = ["none of the conditions of case holds, and there is no default", *preds]
            checks.append(graph.assert_that(graph.ops.GreaterEqual(_how_many(graph, preds), 1), shown))
            default = functions.pop()
            preds.pop()
        with graph.control_dependencies(checks):
            preds = [graph.ops.Identity(pred) for pred in preds] if checks else preds
            return _first_that_holds(graph, preds, functions, default)


def _is_case(pair: Any) -> bool:
    return isinstance(pair, list | tuple) and len(pair) == 2 and callable(pair[1])


def _how_many(graph: Graph, preds: Sequence[Tensor]) -> Any:
    """How many conditions hold: one int32."""
    return graph.ops.Sum(graph.ops.Cast(graph.ops.Pack(preds), DstT=dtypes.int32), [0])


def switch_case(
    graph: Graph,
    branch_index: Any,
    branch_fns: Sequence[Callable[[], Any]] | Mapping[int, Callable[[], Any]],
    default: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """See `Graph.switch_case`."""
    functions = dict(branch_fns.items() if isinstance(branch_fns, Mapping) else enumerate(branch_fns))
    if not functions or not all(callable(function) for function in functions.values()):
        raise ConstructionTypeError("switch_case takes functions without arguments, at least one")
    with graph.name_scope(name or "switch_case"):
        index = convert(graph, branch_index)
        if not index.dtype.is_integer:
            raise ConstructionTypeError(f"branch_index is an integer; '{index.name}' is {index.dtype.base}")
        numbers = sorted(functions)
        other = functions[numbers[-1]] if default is None else default
        if numbers == [*range(len(numbers))] and default is None:
            return _bisected(graph, index, functions, 0, len(numbers))
        preds = [graph.ops.Equal(index, number) for number in numbers]
        return _first_that_holds(graph, preds, [functions[number] for number in numbers], other)


def _first_that_holds(
    graph: Graph, preds: Sequence[Tensor], functions: Sequence[Callable[[], Any]], default: Callable[[], Any]
) -> Any:
    if not preds:
        return default()
    return cond(
        graph,
        preds[0],
        functions[0],
        lambda: _first_that_holds(graph, preds[1:], functions[1:], default),
    )


def _bisected(
    graph: Graph, index: Tensor, functions: Mapping[int, Callable[[], Any]], first: int, end: int
) -> Any:
    """The function of a number from `first` to before `end`, the last for one that is out of range."""
    if end - first == 1:
        return functions[first]()
    middle = (first + end) // 2
    if first == 0 and end == len(functions):
        # A negative number counts as out of range, too.
        last = graph.ops.Less(index, 0)
        index = graph.ops.Select(last, graph.ops.OnesLike(index) * (end - 1), index)
    return cond(
        graph,
        graph.ops.Less(index, middle),
        lambda: _bisected(graph, index, functions, first, middle),
        lambda: _bisected(graph, index, functions, middle, end),
    )


def _merged(graph: Graph, branches: tuple[BranchContext, BranchContext], values: tuple[Any, Any]) -> Any:
    """One result: of two tensors, of two operations, or None for None in both."""
    if values == (None, None):
        return None
    if values[0] is None or values[1] is None:
        raise ConstructionTypeError(
            "one branch returns None and the other a value: both must return one structure"
        )
    dtype = next(
        (
            _type_of(graph, branch, each)
            for branch, each in zip(branches, values, strict=True)
            if isinstance(each, Operation) or stands_for_tensor(each)
        ),
        None,
    )
    tensors = [_settled(branch, each, dtype) for branch, each in zip(branches, values, strict=True)]
    if tensors[0].dtype.base is not tensors[1].dtype.base:
        raise ConstructionTypeError(
            f"the branches return {tensors[0].dtype.base} ('{tensors[0].name}') and "
            f"{tensors[1].dtype.base} ('{tensors[1].name}') in the same place"
        )
    with branches[0].left(results=True):
        merge: Tensor = graph.ops.Merge([tensors[1], tensors[0]], name="Merge").output
    return merge.op if all(isinstance(each, Operation) for each in values) else merge


def _type_of(graph: Graph, branch: BranchContext, value: Any) -> DType:
    if isinstance(value, Operation):
        return dtypes.bool_
    with branch.entered():
        return convert(graph, value).dtype.base


def _settled(branch: BranchContext, value: Any, dtype: DType | None) -> Tensor:
    """A result as a tensor of its branch."""
    graph = branch.graph
    with branch.entered():
        if isinstance(value, Operation):
            pivot = Tensor(graph, branch.pivot, 0)
            with graph.control_dependencies([value]):
                done: Tensor = graph.ops.Identity(pivot, name="done")
            return done
        is_symbolic = stands_for_tensor(value)
        tensor = branch.bring(convert(graph, value, None if is_symbolic else dtype))
        if tensor.dtype.is_ref:
            tensor = graph.ops.Identity(tensor)
        return tensor


__all__ = ["case", "cond", "switch_case"]
