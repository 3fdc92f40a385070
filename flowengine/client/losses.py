"""Losses: how far predictions are from labels, as one number to minimise or one for each example.

Every function takes `labels` and `predictions` (or `logits`), tensors or values, and `weights` (one for all,
or of the rank of the losses, each dimension 1 or theirs), adds its result to the collection "losses" of the
graph, and reduces as `reduction` says; the `options` are those of `LossOptions`. Sums are kept in float32, in
float64 where the predictions are float64 (TensorFlow keeps them in float32 there, too); a loss has the type
of the predictions, and labels are converted to it. A loss with a weight of 0 does not count.

Errors: InvalidArgumentError if shapes or weights do not fit, raised by the step if the graph does not know
them.

`losses` is a tensor of losses; `regularization` adds the penalties of variables.

>>> losses, graph = fe.losses, fe.Graph()
>>> labels, predictions = graph.constant([[1.0, 0.0]]), graph.constant([[0.5, 0.25]])
>>> found = [losses.absolute_difference(labels, predictions), losses.mean_squared_error(labels, predictions)]
>>> found += [losses.huber(labels, predictions), losses.hinge(labels, predictions)]
>>> found += [losses.log(labels, predictions), losses.mean_pairwise_squared_error(labels, predictions)]
>>> found += [losses.cosine_distance(labels, predictions, axis=1)]
>>> found += [losses.sigmoid_cross_entropy(labels, predictions)]
>>> found += [losses.softmax_cross_entropy(labels, predictions)]
>>> found += [losses.sparse_softmax_cross_entropy([0], predictions)]
>>> found += [losses.weighted(predictions, weights=[[1.0, 0.0]], reduction="weighted_sum")]
>>> len(losses.collected(graph))
11
>>> found.append(losses.total(graph))
>>> print(np.round([float(each) for each in fe.testing.evaluate(graph, [each.name for each in found])], 2))
[0.38 0.16 0.08 0.88 0.49 0.56 0.5  0.65 0.58 0.58 0.5  5.34]
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Unpack

from flowengine.client.arguments import computing_type, of_type
from flowengine.client.reductions import (
    LOSSES,
    REGULARIZATION_LOSSES,
    LossOptions,
    Reduction,
    kept,
    reduced,
    weighted,
)
from flowengine.client.weights import check_weights, spread_weights, where_nonzero
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.functions.math import cast
from flowengine.graphs.functions.normalization import (
    sigmoid_cross_entropy_with_logits,
    softmax_cross_entropy_with_logits,
    sparse_softmax_cross_entropy_with_logits,
)
from flowengine.graphs.functions.reductions import reduce_sum
from flowengine.graphs.given import need_graph
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor


def _pair(what: str, labels: Any, predictions: Any) -> tuple[Graph, Tensor, Tensor]:
    """Both as tensors of the type of the predictions; their shapes must be able to be the same."""
    graph = graph_of(what, predictions, labels)
    found = convert(graph, predictions)
    wanted = convert(graph, labels, None if isinstance(labels, Tensor) else found.dtype.base)
    if not found.shape.is_compatible_with(wanted.shape):
        raise InvalidArgumentError(
            f"{what}: labels have the shape {wanted.shape}, predictions (or logits) {found.shape}"
        )
    return graph, cast(wanted, found.dtype.base), found


def _each(
    what: str,
    labels: Any,
    predictions: Any,
    rule: Callable[[Any, Tensor, Tensor], Tensor],
    weights: Any,
    options: LossOptions,
) -> Tensor:
    """A loss whose elements are those of labels and predictions."""
    graph = graph_of(what, predictions, labels)
    with graph.name_scope(options.get("name") or what):
        graph, wanted, found = _pair(what, labels, predictions)
        return reduced(rule(graph.ops, wanted, found), weights, options)


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute `|predictions - labels|`; both (D_1, ..., D_r).

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        result: Tensor = ops.Abs(ops.Sub(found, wanted))
        return result

    return _each("absolute_difference", labels, predictions, rule, weights, options)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute `(predictions - labels)**2`; both (D_1, ..., D_r).

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        result: Tensor = ops.SquaredDifference(found, wanted)
        return result

    return _each("mean_squared_error", labels, predictions, rule, weights, options)


def huber(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    *,
    delta: float = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Return half the square of the error up to `delta`, linear beyond (Huber 1964); both (D_1, ..., D_r).

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        error = ops.Abs(ops.Sub(found, wanted))
        near = ops.Minimum(error, delta)
        # near**2/2 + delta*(error-near): where one part moves the other stands still.
        result: Tensor = ops.Add(ops.Mul(0.5, ops.Mul(near, near)), ops.Mul(delta, ops.Sub(error, near)))
        return result

    return _each("huber_loss", labels, predictions, rule, weights, options)


def log(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    *,
    epsilon: float = 1e-7,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute the cross entropy of probabilities, `-y*log(p + epsilon) - (1-y)*log(1-p + epsilon)`.

    labels, predictions   (D_1, ..., D_r), from 0 to 1

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        true = ops.Mul(wanted, ops.Log(ops.Add(found, epsilon)))
        false = ops.Mul(ops.Sub(1.0, wanted), ops.Log(ops.Add(ops.Sub(1.0, found), epsilon)))
        result: Tensor = ops.Sub(ops.Neg(true), false)
        return result

    return _each("log_loss", labels, predictions, rule, weights, options)


def hinge(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute `max(0, 1 - y*logits)` with y = 2*labels - 1; labels are 0 or 1, both (D_1, ..., D_r).

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        signs = ops.Sub(ops.Mul(2.0, wanted), 1.0)
        result: Tensor = ops.Relu(ops.Sub(1.0, ops.Mul(signs, found)))
        return result

    return _each("hinge_loss", labels, logits, rule, weights, options)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: int,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """`1 - sum(labels*predictions)` along an axis, for vectors of length 1; the losses keep it with one.

    Both of numbers; predictions of floats, whose type the loss has. Scalar unless the reduction is "none".
    Raises InvalidArgumentError where shapes or weights do not fit.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        alike = ops.Sum(ops.Mul(found, wanted), [axis], keep_dims=True)
        result: Tensor = ops.Sub(1.0, alike)
        return result

    return _each("cosine_distance_loss", labels, predictions, rule, weights, options)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    *,
    collection: str | None = LOSSES,
    name: str | None = None,
) -> Tensor:
    """Return the mean of `((p_i - p_j) - (y_i - y_j))**2` over all pairs of elements of an example.

    labels, predictions   (N, D_1, ..., D_r)
    weights               scalar or (N, 1, ..., 1) or (N, D_1, ..., D_r)
    returns               scalar, the weighted sum over the N examples

    Of floats, whose type the loss has. Raises InvalidArgumentError where shapes or weights do not fit.
    """
    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "mean_pairwise_squared_error"):
        graph, wanted, found = _pair("mean_pairwise_squared_error", labels, predictions)
        ops, dtype = graph.ops, computing_type(found)
        errors = ops.Sub(cast(found, dtype), cast(wanted, dtype))
        factors = of_type(graph, weights, dtype)
        factors = check_weights("mean_pairwise_squared_error", factors, errors)
        present = spread_weights("mean_pairwise_squared_error", where_nonzero(factors), errors)
        inner = ops.Range(1, ops.Rank(errors), 1)
        count = ops.Sum(present, inner, keep_dims=True)
        others = ops.Maximum(ops.Sub(count, 1.0), 0.0)
        squares = ops.Sum(ops.Mul(errors, errors), inner, keep_dims=True)
        total = ops.Sum(errors, inner, keep_dims=True)
        # sum over pairs (e_i - e_j)**2 = 2 (n sum e**2 - (sum e)**2), over n (n-1) ordered pairs.
        first = ops.Mul(2.0, ops.DivNoNan(squares, others))
        second = ops.Mul(2.0, ops.DivNoNan(ops.Mul(total, total), ops.Mul(count, others)))
        losses = ops.Mul(ops.Sub(first, second), factors)
        loss = reduce_sum(losses)
        some = ops.Greater(reduce_sum(count), 0.0)
        loss = ops.Select(some, loss, ops.ZerosLike(loss), name="value")
        return kept(graph, cast(loss, found.dtype.base), collection)


def sigmoid_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    *,
    label_smoothing: float = 0.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute the cross entropy of independent classes; both (N, C), labels from 0 to 1.

    label_smoothing   s moves labels towards a half: y*(1-s) + s/2

    Logits of floats, whose type the loss has; scalar unless the reduction is "none". Raises
    InvalidArgumentError where shapes or weights do not fit. Smoothing: Szegedy and others 2016.
    """

    def rule(ops: Any, wanted: Tensor, found: Tensor) -> Tensor:
        if label_smoothing > 0:
            wanted = ops.Add(ops.Mul(wanted, 1 - label_smoothing), 0.5 * label_smoothing)
        return sigmoid_cross_entropy_with_logits(wanted, found)

    return _each("sigmoid_cross_entropy_loss", labels, logits, rule, weights, options)


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    *,
    label_smoothing: float = 0.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute the cross entropy of exclusive classes; losses have the shape without the last axis.

    onehot_labels, logits   (D_1, ..., D_r, C); labels are probabilities and get no gradient
    label_smoothing         s moves labels towards equal ones: y*(1-s) + s/C

    Logits of floats, whose type the loss has; scalar unless the reduction is "none". Raises
    InvalidArgumentError where shapes or weights do not fit. Smoothing: Szegedy and others 2016.
    """
    what = "softmax_cross_entropy_loss"
    graph = graph_of(what, logits, onehot_labels)
    with graph.name_scope(options.get("name") or what):
        graph, wanted, found = _pair(what, onehot_labels, logits)
        ops, dtype = graph.ops, found.dtype.base
        if label_smoothing > 0:
            classes = found.shape[-1] if found.shape.dims else None
            share: Any = (
                label_smoothing / classes
                if classes
                else ops.Div(
                    label_smoothing,
                    cast(
                        ops.StridedSlice(ops.Shape(found), [-1], [0], [1], end_mask=1, shrink_axis_mask=1),
                        dtype,
                    ),
                )
            )
            wanted = ops.Add(ops.Mul(wanted, 1 - label_smoothing), share)
        losses = softmax_cross_entropy_with_logits(ops.StopGradient(wanted), found)
        return reduced(losses, weights, options)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    **options: Unpack[LossOptions],
) -> Tensor:
    """Compute the cross entropy of classes given by number; losses have the shape of the labels.

    labels    (D_1, ..., D_r) int32/int64, or with a last axis of 1, in 0 ... C-1
    logits    (D_1, ..., D_r, C)

    Logits of floats, whose type the loss has; scalar unless the reduction is "none". Raises
    InvalidArgumentError where shapes or weights do not fit; a label outside is an error of the run.
    """
    what = "sparse_softmax_cross_entropy_loss"
    graph = graph_of(what, logits, labels)
    with graph.name_scope(options.get("name") or what):
        found = convert(graph, logits)
        wanted = _squeezed(convert(graph, labels), found)
        factors = weights
        if isinstance(weights, Tensor) and weights.shape.rank not in (None, 0):
            factors = _squeezed(weights, found)
        losses = sparse_softmax_cross_entropy_with_logits(wanted, found)
        return reduced(losses, factors, options)


def _squeezed(labels: Tensor, logits: Tensor) -> Tensor:
    """Labels without a last axis of 1 that would make them of the rank of the logits."""
    rank = labels.shape.rank
    if rank is not None and rank == logits.shape.rank and labels.shape[-1] == 1:
        result: Tensor = labels.graph.ops.Squeeze(labels, squeeze_dims=[-1])
        return result
    return labels


def collected(graph: Graph, collection: str = LOSSES) -> list[Tensor]:
    """Return the losses that the graph's functions have added to a collection, in order.

    Scalars, or losses by example where their reduction was "none"; none of a name that nothing was added to.
    """
    need_graph(graph, "fe.losses.collected(graph)")
    return list(graph.collection(collection))


def total(graph: Graph, *, regularization: bool = True, name: str = "total_loss") -> Tensor:
    """Sum the collection "losses" and, by default, the penalties of regularizers.

    Scalar. Raises InvalidArgumentError if the graph has none of them.
    """
    need_graph(graph, "fe.losses.total(graph)")
    parts = collected(graph) + (collected(graph, REGULARIZATION_LOSSES) if regularization else [])
    if not parts:
        raise InvalidArgumentError(
            "losses.total: the graph lists no losses: add one by a function of fe.losses"
        )
    result: Tensor = graph.ops.AddN(parts, name=name)
    return result


__all__ = [
    "LOSSES",
    "REGULARIZATION_LOSSES",
    "LossOptions",
    "Reduction",
    "absolute_difference",
    "collected",
    "cosine_distance",
    "hinge",
    "huber",
    "log",
    "mean_pairwise_squared_error",
    "mean_squared_error",
    "sigmoid_cross_entropy",
    "softmax_cross_entropy",
    "sparse_softmax_cross_entropy",
    "total",
    "weighted",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
