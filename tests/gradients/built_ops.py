"""Small graphs around ops of which a record cannot tell the gradient: references, handles, lists, loops.

Each is built of a tensor x, float64 of shape (3, 2), and gives what is differentiated: tensors, and by what,
if that is not x but a variable that holds it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import numpy as np

import flowengine as fe
from flowengine.testing.control import conditional, while_loop

KIND: Final = "float64"
SHAPE: Final = (3, 2)
_ROW: Final = np.array([2], np.int32)


@dataclass(frozen=True)
class Built:
    """The tensors to differentiate, and the tensor to differentiate them by."""

    ys: list[fe.Tensor]
    by: fe.Tensor


Build = Callable[[fe.Graph, fe.Tensor], Built]
#: {names of ops: the graph around them}
BUILT: Final[dict[str, Build]] = {}


def _of(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        def whole(graph: fe.Graph, x: fe.Tensor) -> Built:
            made = build(graph, graph.ops, x)
            return made if isinstance(made, Built) else Built(made if isinstance(made, list) else [made], x)

        BUILT[names] = whole
        return build

    return enter


@_of("IdentityN")
def _identities(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    return o.Mul(*o.IdentityN([x, o.Sin(x), g.constant(True)])[:2])


def _reference(g: fe.Graph, x: fe.Tensor) -> tuple[fe.Tensor, Any]:
    """A variable, and the control dependency behind which it holds x."""
    variable = g.ops.VariableV2(dtype=KIND, shape=SHAPE)
    return variable, g.control_dependencies([g.ops.Assign(variable, x)])


@_of("RefIdentity DebugGradientRefIdentity")
def _reference_handed_on(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    variable, held = _reference(g, x)
    with held:
        value = o.Identity(o.DebugGradientRefIdentity(o.RefIdentity(variable)))
    return Built([o.Mul(value, o.Sin(value))], variable)


@_of("RefSwitch RefMerge")
def _references_of_a_branch(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    variable, held = _reference(g, x)
    with held:
        untaken, taken = o.RefSwitch(variable, g.constant(True))
        value = o.Identity(o.RefMerge([o.RefIdentity(untaken), o.RefIdentity(taken)]).output)
    return Built([o.Mul(value, value)], variable)


@_of("RefEnter RefExit RefNextIteration")
def _references_in_a_loop(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    variable, held = _reference(g, x)
    frame = {"frame_name": "referring", "parallel_iterations": 1}
    with held:
        enters = [o.Enter(g.constant(0), **frame), o.RefEnter(o.RefIdentity(variable), **frame)]
    with g.control_dependencies(None):
        count, value = o.Merge([enters[0]] * 2).output, o.RefMerge([enters[1]] * 2).output
        with g.control_dependencies([count]):
            goes_on = o.LoopCond(o.Less(count, 3))
        switches = [o.Switch(count, goes_on), o.RefSwitch(value, goes_on)]
        inside = o.Identity(switches[0].output_true)
        with g.control_dependencies([inside]):
            g.set_back_edge(count, 1, o.NextIteration(o.AddV2(inside, 1)))
        g.set_back_edge(value, 1, o.RefNextIteration(o.RefIdentity(switches[1].output_true)))
        left = o.Identity(o.RefExit(switches[1].output_false))
    return Built([o.Mul(left, left)], variable)


@_of("Enter Exit Merge NextIteration Switch")
def _loop(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    def body(i: fe.Tensor, value: fe.Tensor, fixed: fe.Tensor, count: fe.Tensor) -> list[fe.Tensor]:
        def other(a: fe.Tensor) -> list[fe.Tensor]:
            return [o.Tanh(a)]

        (chosen,) = conditional(
            g, o.Less(i, 2), lambda a, b: [o.Mul(a, o.Cos(b))], lambda a, b: other(a), [value, fixed]
        )
        return [o.AddV2(i, o.OnesLike(i)), chosen]

    return while_loop(
        g,
        lambda i, value, fixed, count: o.Less(i, count),
        body,
        [g.constant(0), o.Sin(x)],
        invariants=[x, g.constant(3)],
    )[1]


def _handle(g: fe.Graph, x: fe.Tensor, name: str) -> tuple[fe.Tensor, Any]:
    handle = g.ops.VarHandleOp(dtype=KIND, shape=SHAPE, shared_name=name)
    return handle, g.control_dependencies([g.ops.AssignVariableOp(handle, x)])


@_of("ReadVariableOp")
def _variable(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    handle, held = _handle(g, x, "read")
    with held:
        value = o.ReadVariableOp(handle, dtype=KIND)
    return Built([o.Mul(value, o.Sin(value))], handle)


@_of("ResourceGather")
def _rows_of_a_variable(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    handle, held = _handle(g, x, "rows")
    with held:
        return Built([o.Square(o.ResourceGather(handle, [[2, 0], [2, 1]], dtype=KIND))], handle)


@_of("ResourceGatherNd")
def _places_of_a_variable(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    handle, held = _handle(g, x, "places")
    with held:
        return Built([o.Square(o.ResourceGatherNd(handle, [[2, 0], [1, 1], [2, 0]], dtype=KIND))], handle)


def _of_versions(names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A graph around ops of TensorArrays, in each of the three versions: it asks `new` for an array with its
    first flow, and `op` for an op of the version."""

    def around(version: str, build: Callable[..., Any], g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
        def op(name: str, *inputs: Any, **attrs: Any) -> Any:
            return getattr(o, f"TensorArray{name}{version}")(*inputs, **attrs)

        def new(size: int, **attrs: Any) -> Any:
            made = op("", size, dtype=KIND, clear_after_read=False, **attrs)
            return made if version == "V3" else (made, g.constant(0.0, "float32"))

        return build(g, o, x, op, new)

    def enter(build: Callable[..., Any]) -> Callable[..., Any]:
        for version in ("", "V2", "V3"):
            ops = " ".join(f"TensorArray{name}{version}" for name in names.split())
            _of(ops)(partial(around, version, build))
        return build

    return enter


@_of_versions("Write Read Gather")
def _array_element_by_element(g: fe.Graph, o: Any, x: fe.Tensor, op: Any, new: Any) -> Any:
    array, flow = new(3, element_shape=SHAPE)
    flow = op("Write", array, 0, o.Sin(x), flow)
    flow = op("Write", array, 2, o.Square(x), flow)
    read = op("Read", array, 2, flow, dtype=KIND)
    gathered = op("Gather", array, [2, 0], flow, dtype=KIND, element_shape=SHAPE)
    return [o.Mul(read, x), o.Square(gathered)]


@_of_versions("Scatter Split Concat")
def _array_as_a_whole(g: fe.Graph, o: Any, x: fe.Tensor, op: Any, new: Any) -> Any:
    array, flow = new(3)
    flow = op("Scatter", array, [2, 0, 1], o.ExpandDims(o.Sin(x), 1), flow)
    joined = op("Concat", array, flow, dtype=KIND)
    other, flow = new(2)
    split = op("Split", other, o.Mul(x, joined.value), g.constant([1, 2], "int64"), flow)
    return o.Mul(op("Concat", other, split, dtype=KIND).value, x)


@_of("TensorArrayPack TensorArrayUnpack")
def _array_packed(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    array = o.TensorArray(3, dtype=KIND, clear_after_read=False)
    flow = o.TensorArrayUnpack(array, o.Sin(x), g.constant(0.0, "float32"))
    return o.Mul(o.TensorArrayPack(array, flow, dtype=KIND), x)


@_of("OptionalFromValue OptionalGetValue")
def _optional(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    optional = o.OptionalFromValue([x, o.Sin(x)])
    one, two = o.OptionalGetValue(optional, output_types=[KIND, KIND], output_shapes=[SHAPE, SHAPE])
    return o.Mul(one, two)


@_of("TensorListPushBack TensorListPopBack TensorListConcatLists TensorListResize")
def _list_from_its_end(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    shape = np.array(SHAPE, np.int32)
    empty = o.EmptyTensorList(shape, -1, element_dtype=KIND)
    one = o.TensorListPushBack(empty, o.Sin(x))
    both = o.TensorListConcatLists(o.TensorListPushBack(one, x), one, element_dtype=KIND)
    rest, last = o.TensorListPopBack(both, shape, element_dtype=KIND)
    short = o.TensorListResize(rest, 1)
    first = o.TensorListPopBack(short, shape, element_dtype=KIND).tensor
    return o.Mul(o.Mul(first, last), o.TensorListPopBack(rest, shape, element_dtype=KIND).tensor)


@_of("TensorListFromTensor TensorListGetItem TensorListSetItem TensorListStack TensorListGather")
def _list_by_places(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    items = o.TensorListFromTensor(o.Sin(x), _ROW)
    changed = o.TensorListSetItem(items, 1, o.Square(o.GatherV2(x, 0, 0)))
    item = o.TensorListGetItem(changed, 1, _ROW, element_dtype=KIND)
    stacked = o.TensorListStack(changed, _ROW, element_dtype=KIND)
    gathered = o.TensorListGather(changed, [2, 1, 2], _ROW, element_dtype=KIND)
    return [o.Mul(o.Mul(stacked, item), gathered)]


@_of("TensorListScatter TensorListScatterV2 TensorListScatterIntoExistingList")
def _scattered_list(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    first = o.TensorListScatter(o.Sin(x), [2, 0, 1], _ROW)
    second = o.TensorListScatterV2(o.Square(x), [1, 0, 2], _ROW, 3)
    changed = o.TensorListScatterIntoExistingList(second, o.GatherV2(x, [1, 2], 0), [2, 0])
    one, two, three = (o.TensorListStack(each, _ROW, element_dtype=KIND) for each in (first, second, changed))
    return o.Mul(o.Mul(one, two), three)


@_of("TensorListSplit TensorListConcat TensorListConcatV2")
def _parts_of_a_list(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    items = o.TensorListSplit(o.Sin(x), np.array([-1, 2], np.int32), g.constant([1, 2], "int64"))
    one = o.TensorListConcat(items, element_dtype=KIND, element_shape=[None, 2]).tensor
    two = o.TensorListConcatV2(
        items, np.array([-1, 2], np.int32), g.constant([], "int64"), element_dtype=KIND
    ).tensor
    return o.Mul(o.Mul(one, two), x)


@_of("TensorListPushBackBatch")
def _lists(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    empty = [o.EmptyTensorList(_ROW, -1, element_dtype=KIND) for _ in range(3)]
    handles = o.TensorListPushBackBatch(o.Pack(empty), o.Sin(x))
    rows = [
        o.TensorListGetItem(each, 0, _ROW, element_dtype=KIND) for each in o.Unpack(handles, num=3, axis=0)
    ]
    return o.Mul(o.Pack(rows), x)


@_of("RaggedTensorToVariant RaggedTensorFromVariant RaggedTensorToVariantGradient")
def _ragged(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    splits = g.constant([0, 1, 1, 3], "int64")
    encoded = o.RaggedTensorToVariant([splits], o.Sin(x), batched_input=True)
    made = o.RaggedTensorFromVariant(
        encoded,
        input_ragged_rank=0,
        output_ragged_rank=1,
        Tvalues=KIND,
        Tsplits="int64",
    )
    return o.Mul(made[-1], x)


@_of("DenseToCSRSparseMatrix SparseMatrixMatMul SparseMatrixTranspose CSRSparseMatrixToDense")
def _sparse_products(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    places = g.constant([[0, 1], [1, 0], [2, 1]], "int64")
    matrix = o.DenseToCSRSparseMatrix(o.Sin(x), places)
    product = o.SparseMatrixMatMul(o.SparseMatrixTranspose(matrix, type=KIND), x)
    return [product, o.Mul(o.CSRSparseMatrixToDense(matrix, type=KIND), x)]


@_of(
    "SparseTensorToCSRSparseMatrix CSRSparseMatrixToSparseTensor SparseMatrixAdd SparseMatrixMul "
    "CSRSparseMatrixToDense"
)
def _sparse_sums(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    flat = o.Reshape(x, [6])
    at = g.constant([[3, 1], [0, 1], [2, 0], [0, 0], [2, 2], [3, 0]], "int64")
    shape = g.constant([4, 3], "int64")
    one = o.SparseTensorToCSRSparseMatrix(at, flat, shape)
    other = o.SparseTensorToCSRSparseMatrix(o.AddV2(at[1:4], [[0, 1]]), o.Sin(flat[:3]), shape)
    added = o.SparseMatrixAdd(one, other, flat[0], o.Cos(flat[1]))
    scaled = o.SparseMatrixMul(added, flat[2])
    values = o.CSRSparseMatrixToSparseTensor(scaled, type=KIND)[1]
    return [o.Mul(values, values), o.CSRSparseMatrixToDense(one, type=KIND)]


@_of("SparseMatrixSoftmax SparseMatrixSoftmaxGrad")
def _sparse_softmax(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    shares = []
    for places, logits in (
        ([[0, 0], [0, 1], [2, 1]], x),
        ([[0, 0, 0], [0, 1, 0], [1, 0, 1], [1, 2, 1], [1, 2, 0]], o.Pack([x, o.Sin(x)])),
    ):
        matrix = o.DenseToCSRSparseMatrix(logits, g.constant(places, "int64"))
        shares.append(o.CSRSparseMatrixToDense(o.SparseMatrixSoftmax(matrix, type=KIND), type=KIND))
    return shares


@_of("BatchNormWithGlobalNormalizationGrad")
def _normalised(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    image = o.Reshape(x, [1, 3, 1, 2])
    mean, gamma = o.Mean(x, [0]), o.Sum(x, [0])
    found = o.BatchNormWithGlobalNormalizationGrad(
        *(image, mean, o.Exp(mean), gamma, o.Sin(image)),
        variance_epsilon=0.1,
        scale_after_normalization=True,
    )
    return list(found)


@_of("FractionalAvgPoolGrad FractionalMaxPoolGrad")
def _pooled(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    """Both are linear in the gradient that they hand back."""
    image = g.constant(np.arange(6.0).reshape(1, 3, 2, 1) * [[[[0.7]]]])
    how = {"pooling_ratio": [1.0, 1.5, 1.0, 1.0], "deterministic": True, "seed": 3, "seed2": 4}
    most, rows, columns = o.FractionalMaxPool(image, **how)
    grad = o.Reshape(o.GatherV2(x, [0, 2], 0), [1, 2, 2, 1])
    by_most = o.FractionalMaxPoolGrad(image, most, o.Sin(grad), rows, columns)
    return [by_most, o.FractionalAvgPoolGrad(o.Shape(image, out_type="int64"), o.Sin(grad), rows, columns)]


@_of("Batch Unbatch")
def _batched(g: fe.Graph, o: Any, x: fe.Tensor) -> Any:
    how = {"container": "", "shared_name": "", "batching_queue": ""}
    rows, index, which = o.Batch(
        [x],
        num_batch_threads=1,
        max_batch_size=3,
        batch_timeout_micros=0,
        grad_timeout_micros=10_000_000,
        **how,
    )
    doubled = o.Mul(rows[0], np.float64(3))
    return o.Unbatch(doubled, index, which, timeout_micros=10_000_000, container="")
