"""Embeddings: rows of a table looked up by number, the table whole or in parts, one row or several at a time.

A table, `params`, is a Tensor, a variable, or a list of either: parts of one table, in which
`partition_strategy` ("mod" or "div") finds a row. A variable is read by row, so its gradient is
IndexedSlices. Ids are int32 or int64; one outside of the table is an InvalidArgumentError of the run.
`sparse_ids` and `sparse_weights` are sparse tensors (N, L); `combiner` is "mean", "sum" or "sqrtn";
`max_norm` shortens longer rows.

>>> graph = fe.Graph()
>>> table = graph.constant([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]])
>>> parts = np.int64([[0, 0], [0, 1]]), [0, 2], np.int64([2, 2])
>>> words = fe.embedding.SparseParts(*map(graph.constant, parts))
>>> found = [fe.embedding.lookup(table, [2, 0]), fe.embedding.lookup_sparse(table, words, combiner="sum")]
>>> found += [fe.embedding.safe_lookup_sparse(table, words)]
>>> [value.tolist() for value in fe.testing.evaluate(graph, [each.name for each in found])]
[[[3.0, 3.0], [1.0, 1.0]], [[4.0, 4.0]], [[2.0, 2.0], [0.0, 0.0]]]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions import array
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables.partitioned import PartitionedVariable
from flowengine.graphs.variables.variable import GraphVariable

_COMBINERS: Final = ("mean", "sqrtn", "sum")


def lookup(
    params: Any,
    ids: Any,
    *,
    partition_strategy: str | None = None,
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Return the rows of a table that ids name.

    params               (V, D_1, ...) or a list of P parts of it, along its first axis
    ids                  (N_1, ...) int32 or int64
    partition_strategy   which part has id i: "mod" number i % P, as its row i // P; "div" runs of ids, the
                         first V % P parts one longer; None is "div" for a partitioned variable, which is cut
                         so, and "mod" for a list
    max_norm             rows with a larger 2-norm are scaled down to it
    returns              (N_1, ..., D_1, ...) of the type of params

    Raises InvalidArgumentError for an empty list of parts, ids of another type, or an unknown option; the
    step raises it for an id outside of the table.
    """
    parts = _parts(params)
    graph = graph_of(*parts, ids)
    with graph.name_scope(name or "embedding_lookup"):
        numbers = convert(graph, ids)
        if len(parts) == 1:
            found = _rows_of(graph, parts[0], numbers)
        else:
            found = _from_parts(graph, parts, numbers, _strategy(params, partition_strategy))
        if max_norm is not None:
            found = _limited(found, numbers, max_norm)
        result: Tensor = graph.ops.Identity(found)
    return result


def _strategy(params: Any, given: str | None) -> str:
    return given or ("div" if isinstance(params, PartitionedVariable) else "mod")


def _parts(params: Any) -> list[Any]:
    if isinstance(params, PartitionedVariable):
        # Cut along another axis than that of the rows, it is looked up as a whole.
        return list(params.parts) if params.axis == 0 else [params.value()]
    parts = list(params) if isinstance(params, list | tuple) else [params]
    if not parts:
        raise InvalidArgumentError("embedding: params is an empty list: give a table, or its parts")
    return parts


def _rows_of(graph: Graph, table: Any, ids: Tensor) -> Tensor:
    """Rows of one part, read where it is."""
    if isinstance(table, GraphVariable):
        return table.rows(ids)
    tensor = convert(graph, table)
    with graph.colocate_with(tensor):
        rows: Tensor = graph.ops.GatherV2(tensor, ids, 0)
    return rows


def _row_shape(graph: Graph, parts: Sequence[Any]) -> Any:
    """Return the shape of a row: a list if the graph knows it, else an int32 tensor."""
    for part in parts:
        shape = part.shape
        if shape.dims is not None and None not in shape.dims[1:]:
            return list(shape.dims[1:])
    whole = graph.ops.Shape(convert(graph, parts[0]))
    return graph.ops.StridedSlice(whole, [1], [0], [1], end_mask=1)


def _from_parts(graph: Graph, parts: Sequence[Any], ids: Tensor, strategy: str) -> Tensor:
    """Ids are dealt out to the parts; what each finds is put back in order."""
    ops = graph.ops
    flat = ops.Reshape(ids, [-1])
    positions = ops.Range(0, array.size(flat), 1)
    if strategy == "mod":
        part, row = ops.FloorMod(flat, len(parts)), ops.FloorDiv(flat, len(parts))
    elif strategy == "div":
        part, row = _by_runs(graph, parts, flat)
    else:
        raise InvalidArgumentError(f'embedding: partition_strategy is "mod" or "div", not {strategy!r}')
    if part.dtype.base is not dtypes.int32:
        part = ops.Cast(part, DstT=dtypes.int32)
    rows = ops.DynamicPartition(row, part, num_partitions=len(parts))
    places = ops.DynamicPartition(positions, part, num_partitions=len(parts))
    found = [_rows_of(graph, each, rows[number]) for number, each in enumerate(parts)]
    stitched = ops.ParallelDynamicStitch(list(places), found)
    # Without ids the width of a row is not known from the parts, so take it from the table.
    wanted = _row_shape(graph, parts)
    known = ids.shape.as_tuple()
    if isinstance(wanted, list) and known is not None:
        result: Tensor = ops.Reshape(stitched, [*known, *wanted])
        return result
    result = ops.Reshape(stitched, ops.ConcatV2([array.shape(ids), wanted], 0))
    return result


def _by_runs(graph: Graph, parts: Sequence[Any], flat: Tensor) -> tuple[Tensor, Tensor]:
    """(part, row in it) of each id where parts hold runs of ids, the first ones one more."""
    ops, dtype = graph.ops, flat.dtype.base
    lengths = [part.shape[0] if part.shape.dims else None for part in parts]
    if None in lengths:
        counts = [ops.Slice(ops.Shape(convert(graph, part)), [0], [1]) for part in parts]
        total: Any = ops.Sum(ops.Cast(ops.ConcatV2(counts, 0), DstT=dtype), [0])
    else:
        total = graph.constant(sum(lengths), dtype)
    each, extras = ops.FloorDiv(total, len(parts)), ops.FloorMod(total, len(parts))
    longer = ops.Add(each, 1)
    past = ops.Sub(flat, extras)
    part = ops.Maximum(ops.FloorDiv(flat, longer), ops.FloorDiv(past, each))
    row = ops.Select(ops.Less(part, extras), ops.FloorMod(flat, longer), ops.FloorMod(past, each))
    return part, row


def _limited(rows: Tensor, ids: Tensor, max_norm: float) -> Tensor:
    """Rows scaled down to a norm where theirs is greater."""
    ops, graph = rows.graph.ops, rows.graph
    outer, rank = ids.shape.rank, rows.shape.rank
    if outer is not None and rank is not None:
        axes: Any = graph.constant(list(range(outer, rank)), dtypes.int32, shape=[rank - outer])
    else:
        axes = ops.Range(array.rank(ids), array.rank(rows), 1)
    with graph.name_scope("clip_by_norm"):
        squares = ops.Sum(ops.Mul(rows, rows), axes, keep_dims=True)
        # The root of 0 has no derivative, so take it of 1 there, which leaves the row unchanged.
        positive = ops.Greater(squares, 0.0)
        norm = ops.Sqrt(ops.SelectV2(positive, squares, array.ones_like(squares)))
        norm = ops.SelectV2(positive, norm, squares)
        result: Tensor = ops.RealDiv(ops.Mul(rows, max_norm), ops.Maximum(norm, max_norm))
    return result


def lookup_sparse(
    params: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    *,
    partition_strategy: str | None = None,
    combiner: str = "mean",
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Look up the rows that each row of sparse ids names, and combine them into one.

    params           as for `lookup`
    sparse_ids       a sparse tensor (`.indices`, `.values`, `.dense_shape`) of shape (N, M) of ids, in order;
                     each of the N rows up to the last that has ids must have one (else see
                     `safe_lookup_sparse`)
    sparse_weights   a sparse tensor with the same indices and float values; None for ones
    combiner         "sum" of weight * row; "mean", that by the sum of weights; "sqrtn", by the root of the
                     sum of their squares
    returns          (N', D_1, ...) where N' - 1 is the last row that has ids

    Raises InvalidArgumentError for an empty list of parts, ids of another type, or an unknown option; the
    step raises it for an id outside of the table.
    """
    if combiner not in _COMBINERS:
        raise InvalidArgumentError(f"embedding: combiner is one of {', '.join(_COMBINERS)}, not {combiner!r}")
    parts = _parts(params)
    graph = graph_of(*parts, sparse_ids.values)
    with graph.name_scope(name or "embedding_lookup_sparse"):
        ops = graph.ops
        rows = ops.StridedSlice(
            sparse_ids.indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2
        )
        rows = ops.Cast(rows, DstT=dtypes.int32)
        # Each id is looked up once.
        distinct = ops.Unique(sparse_ids.values)
        strategy = _strategy(params, partition_strategy)
        found = lookup(parts, distinct.y, partition_strategy=strategy, max_norm=max_norm)
        if sparse_weights is None:
            return _segments(graph, found, distinct.idx, rows, combiner)
        return _weighted_segments(graph, found, distinct.idx, rows, sparse_weights.values, combiner)


def _segments(graph: Graph, found: Tensor, places: Tensor, rows: Tensor, combiner: str) -> Tensor:
    ops = graph.ops
    op = {"sum": ops.SparseSegmentSum, "mean": ops.SparseSegmentMean, "sqrtn": ops.SparseSegmentSqrtN}[
        combiner
    ]
    result: Tensor = op(found, places, rows)
    return result


def _weighted_segments(
    graph: Graph, found: Tensor, places: Tensor, rows: Tensor, weights: Tensor, combiner: str
) -> Tensor:
    ops = graph.ops
    gathered = ops.GatherV2(found, places, 0)
    if weights.dtype.base is not gathered.dtype.base:
        weights = ops.Cast(weights, DstT=gathered.dtype.base)
    factors = _as_column(graph, weights, gathered)
    summed: Tensor = ops.SegmentSum(ops.Mul(gathered, factors), rows)
    if combiner == "sum":
        return summed
    if combiner == "mean":
        divisor = ops.SegmentSum(weights, rows)
    else:
        divisor = ops.Sqrt(ops.SegmentSum(ops.Mul(weights, weights), rows))
    result: Tensor = ops.RealDiv(summed, _as_column(graph, divisor, summed))
    return result


def _as_column(graph: Graph, values: Tensor, rows: Tensor) -> Tensor:
    """(N,) given as many axes of 1 as rows have beyond their first."""
    ops = graph.ops
    rank = rows.shape.rank
    if rank is not None:
        result: Tensor = ops.Reshape(values, [-1] + [1] * (rank - 1))
        return result
    ones = ops.Fill(ops.Reshape(ops.Sub(array.rank(rows), 1), [1]), 1)
    result = ops.Reshape(values, ops.ConcatV2([[-1], ones], 0))
    return result


class SparseParts(NamedTuple):
    """The three tensors of a sparse one: indices (E, R) int64, values (E,), dense_shape (R,) int64."""

    indices: Tensor
    values: Tensor
    dense_shape: Tensor


def safe_lookup_sparse(
    params: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    *,
    combiner: str = "mean",
    default_id: int | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
    name: str | None = None,
) -> Tensor:
    """Do as `lookup_sparse`, for ids of any rank, with empty rows and invalid ids or weights allowed.

    sparse_ids    of shape (N_1, ..., N_k, M); ids below 0 are left out, and (unless combiner is "sum") those
                  without a positive weight
    default_id    the id that a row without any looks up; None gives it zeros
    returns       (N_1, ..., N_k, D)

    Types and errors as for `lookup_sparse`.
    """
    parts = _parts(params)
    graph = graph_of(*parts, sparse_ids.values)
    with graph.name_scope(name or "embedding_lookup"):
        ops = graph.ops
        shape = sparse_ids.dense_shape
        rank = shape.shape[0] if shape.shape.dims else None
        inner: Any = rank - 1 if rank is not None else ops.Sub(ops.Size(shape), 1)
        outer = ops.Slice(shape, [0], [inner] if rank is not None else ops.Reshape(inner, [1]))
        rows = ops.Reshape(ops.Prod(outer, [0]), [1])
        flat = ops.SparseReshape(
            sparse_ids.indices,
            shape,
            ops.ConcatV2([rows, ops.Reshape(ops.GatherV2(shape, inner, 0), [1])], 0),
        )
        weights = None if sparse_weights is None else sparse_weights.values
        valid = ops.GreaterEqual(sparse_ids.values, 0)
        if weights is not None and combiner != "sum":
            valid = ops.LogicalAnd(valid, ops.Greater(weights, 0))
        kept = ops.Reshape(ops.Where(valid), [-1])
        indices = ops.GatherV2(flat.output_indices, kept, 0)
        ids = ops.GatherV2(sparse_ids.values, kept, 0)
        filled = ops.SparseFillEmptyRows(indices, ids, flat.output_shape, default_id or 0)
        full = SparseParts(filled.output_indices, filled.output_values, flat.output_shape)
        full_weights = None
        if weights is not None:
            each = ops.SparseFillEmptyRows(indices, ops.GatherV2(weights, kept, 0), flat.output_shape, 1)
            full_weights = SparseParts(each.output_indices, each.output_values, flat.output_shape)
        found = lookup_sparse(
            parts,
            full,
            full_weights,
            combiner=combiner,
            partition_strategy=partition_strategy,
            max_norm=max_norm,
        )
        if default_id is None:
            empty = _as_column(graph, filled.empty_row_indicator, found)
            found = ops.SelectV2(empty, array.zeros_like(found), found)
        width = ops.Slice(array.shape(found), [1], [-1])
        result: Tensor = ops.Reshape(found, ops.ConcatV2([ops.Cast(outer, DstT=dtypes.int32), width], 0))
    return result


__all__ = ["SparseParts", "lookup", "lookup_sparse", "safe_lookup_sparse"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
