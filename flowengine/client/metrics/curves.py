"""Metrics of curves over thresholds: areas, and one rate where another has a value.

labels are bool and predictions float32 from 0 to 1, of one shape (D_1, ..., D_r), weights floats that
broadcast to it; values are () float32.
"""

from __future__ import annotations

from typing import Any, Final

from flowengine.client.metrics.accumulators import Metric, metric
from flowengine.client.metrics.counts import tallies_at
from flowengine.core import dtypes
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.conversion import graph_of
from flowengine.graphs.tensor import Tensor

_KINDS: Final = ("true_positives", "false_negatives", "true_negatives", "false_positives")
#: Thresholds end that much outside of 0 and 1, so that predictions of just these are on their right side.
_MARGIN: Final = 1e-7
#: Added to rates, so that none is 0 / 0; TensorFlow's.
_EPSILON: Final = 1e-6


def _thresholds(count: int) -> list[float]:
    if count < 2:
        raise InvalidArgumentError(f"metrics: num_thresholds is {count}; a curve has at least 2")
    inner = [(number + 1) / (count - 1) for number in range(count - 2)]
    return [-_MARGIN, *inner, 1 + _MARGIN]


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    *,
    num_thresholds: int = 200,
    curve: str = "ROC",
    summation_method: str = "trapezoidal",
    name: str | None = None,
) -> Metric:
    """Return the area under a curve, approximated at thresholds.

    labels, predictions   (D_1, ..., D_r), predictions from 0 to 1
    curve                 "ROC": true over false positive rate; "PR": precision over recall
    summation_method      "trapezoidal"; "minoring" and "majoring" bound it from below and above;
                          "careful_interpolation", of PR only: Davis and Goadrich 2006

    labels, predictions (D_1, ..., D_r), predictions of floats from 0 to 1; the value is a scalar of float32.
    Raises InvalidArgumentError where shapes or weights do not fit, and for fewer than 2 thresholds.
    """
    if curve not in ("ROC", "PR"):
        raise InvalidArgumentError(f'metrics.auc: curve is "ROC" or "PR", not {curve!r}')
    known = ("trapezoidal", "minoring", "majoring", *(["careful_interpolation"] if curve == "PR" else []))
    if summation_method not in known:
        raise InvalidArgumentError(
            f"metrics.auc: summation_method of {curve} is one of {', '.join(known)}, not {summation_method!r}"
        )

    def area(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, label: str) -> Tensor:
        if summation_method == "careful_interpolation":
            return _interpolated(tp, fn, fp, label)
        ops = tp.graph.ops
        yes, no = ops.Add(tp, fn), ops.Add(fp, tn)
        raised = ops.Add(tp, _EPSILON)
        recalled = ops.RealDiv(raised, ops.Add(yes, _EPSILON))
        if curve == "ROC":
            return _summed(ops.RealDiv(fp, ops.Add(no, _EPSILON)), recalled, summation_method, label)
        precise = ops.RealDiv(raised, ops.Add(ops.Add(tp, fp), _EPSILON))
        return _summed(recalled, precise, summation_method, label)

    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "auc"):
        levels = _thresholds(num_thresholds)
        return metric(area, *tallies_at(graph, labels, predictions, levels, weights, _KINDS))


def _ends(points: Tensor) -> tuple[Tensor, Tensor]:
    """All but the last, and all but the first, of (T,)."""
    ops = points.graph.ops
    return (
        ops.StridedSlice(points, [0], [-1], [1], begin_mask=1),
        ops.StridedSlice(points, [1], [0], [1], end_mask=1),
    )


def _summed(x: Tensor, y: Tensor, method: str, name: str) -> Tensor:
    ops = x.graph.ops
    (x_from, x_to), (y_from, y_to) = _ends(x), _ends(y)
    if method == "trapezoidal":
        height = ops.RealDiv(ops.Add(y_from, y_to), 2.0)
    else:
        height = (ops.Minimum if method == "minoring" else ops.Maximum)(y_from, y_to)
    result: Tensor = ops.Sum(ops.Mul(ops.Sub(x_from, x_to), height), [0], name=name)
    return result


def _interpolated(tp: Tensor, fn: Tensor, fp: Tensor, name: str) -> Tensor:
    """Precision between thresholds by true positives per positive, whose integral has a logarithm."""
    ops = tp.graph.ops
    positives = ops.Add(tp, fp)
    (tp_from, tp_to), (p_from, p_to), (_, fn_to) = _ends(tp), _ends(positives), _ends(fn)
    gained = ops.Sub(tp_from, tp_to)
    slope = ops.DivNoNan(gained, ops.Maximum(ops.Sub(p_from, p_to), 0.0))
    intercept = ops.Sub(tp_to, ops.Mul(slope, p_to))
    both = ops.LogicalAnd(ops.Greater(p_from, 0.0), ops.Greater(p_to, 0.0))
    ratio = ops.Select(both, ops.DivNoNan(p_from, ops.Maximum(p_to, 0.0)), ops.OnesLike(p_to))
    pieces = ops.Mul(slope, ops.Add(gained, ops.Mul(intercept, ops.Log(ratio))))
    result: Tensor = ops.Sum(ops.DivNoNan(pieces, ops.Maximum(ops.Add(tp_to, fn_to), 0.0)), [0], name=name)
    return result


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    *,
    num_thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The sensitivity tp / (tp + fn) at the first threshold whose specificity tn / (tn + fp) is nearest.

    labels, predictions (D_1, ..., D_r), predictions of floats from 0 to 1; the value is a scalar of float32.
    Raises InvalidArgumentError where shapes or weights do not fit, and for fewer than 2 thresholds.
    """
    _check_rate("specificity", specificity)

    def rate(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, label: str) -> Tensor:
        ops = tp.graph.ops
        distance = _distance(tn, fp, specificity)
        return _rate_at(tp, fn, ops.ArgMin(distance, 0, output_type=dtypes.int32), label)

    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "sensitivity_at_specificity"):
        levels = _thresholds(num_thresholds)
        return metric(rate, *tallies_at(graph, labels, predictions, levels, weights, _KINDS))


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    *,
    num_thresholds: int = 200,
    name: str | None = None,
) -> Metric:
    """The specificity tn / (tn + fp) at the last threshold whose sensitivity tp / (tp + fn) is nearest.

    labels, predictions (D_1, ..., D_r), predictions of floats from 0 to 1; the value is a scalar of float32.
    Raises InvalidArgumentError where shapes or weights do not fit, and for fewer than 2 thresholds.
    """
    _check_rate("sensitivity", sensitivity)

    def rate(tp: Tensor, fn: Tensor, tn: Tensor, fp: Tensor, label: str) -> Tensor:
        ops = tp.graph.ops
        distance = _distance(tp, fn, sensitivity)
        backwards = ops.ReverseV2(distance, [0])
        last = ops.Sub(num_thresholds - 1, ops.ArgMin(backwards, 0, output_type=dtypes.int32))
        return _rate_at(tn, fp, last, label)

    graph = graph_of(predictions, labels)
    with graph.name_scope(name or "specificity_at_sensitivity"):
        levels = _thresholds(num_thresholds)
        return metric(rate, *tallies_at(graph, labels, predictions, levels, weights, _KINDS))


def _check_rate(what: str, rate: float) -> None:
    if not 0 <= rate <= 1:
        raise InvalidArgumentError(f"metrics: {what} is from 0 to 1, not {rate}")


def _distance(hits: Tensor, misses: Tensor, wanted: float) -> Tensor:
    ops = hits.graph.ops
    rates = ops.RealDiv(hits, ops.Add(ops.Add(hits, misses), _MARGIN))
    result: Tensor = ops.Abs(ops.Sub(rates, wanted))
    return result


def _rate_at(hits: Tensor, misses: Tensor, place: Tensor, name: str) -> Tensor:
    ops = hits.graph.ops
    hit, miss = ops.GatherV2(hits, place, 0), ops.GatherV2(misses, place, 0)
    result: Tensor = ops.RealDiv(hit, ops.Add(ops.Add(hit, miss), _MARGIN), name=name)
    return result
