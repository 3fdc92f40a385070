"""Every family of kernels on the card beside the CPU's kernels, and the same bits in three runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from flowengine.core.dtypes import float32, int64
from flowengine.kernels.common import philox
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.common.windows import windows
from flowengine.kernels.cuda import (
    batch_norm,
    bias,
    optimizers,
    pooling,
    random_numbers,
    response_norm,
    rows,
    softmax,
)
from flowengine.kernels.nn import activations as softmaxes
from flowengine.kernels.nn import normalization as norms
from flowengine.kernels.nn.window_extremes import WindowReductions
from flowengine.kernels.training.apply import dense_updates
from tests.gpu.tables import ResultTable

FAMILIES = ("batch_norm", "bias", "optimizers", "pooling", "random", "response_norm", "rows", "softmax")
Results = Sequence[Any]
#: (launcher, a source of numbers, size) -> (what the card gives, what the CPU gives).
Case = Callable[[Any, np.random.Generator, int], tuple[Results, Results]]


def _floats(source: np.random.Generator, *shape: int) -> Any:
    return source.normal(0, 2, shape).astype(np.float32)


def softmax_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    x, labels = _floats(source, 4 * size, 37 * size), source.integers(0, 37 * size, 4 * size)
    given = launcher.moved_in(x)
    found = softmax.sparse_cross_entropy(launcher, given, launcher.moved_in(labels))
    wanted = softmaxes.sparse_softmax_cross_entropy(np, x, labels)
    return [softmax.softmax(launcher, given), *found], [softmaxes.softmax(np, x), *wanted]


def bias_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    x, vector = _floats(source, size, 7, 9, 33), _floats(source, 33)
    y = bias.bias_add(launcher, launcher.moved_in(x), launcher.moved_in(vector), "Relu")
    wanted = np.maximum(x + vector, np.float32(0))
    gradient = launcher.moved_in(x)
    dx, sums = bias.bias_gradients(launcher, gradient, y, "Relu")
    sloped = x * (wanted > 0)
    return [y, dx, sums], [wanted, sloped, sloped.sum((0, 1, 2), np.float64)]


def pooling_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    x, geometry = _floats(source, size, 17, 16, 5), windows((17, 16), (3, 3), (2, 2), (1, 1), b"SAME")
    gradient = _floats(source, size, *geometry.out, 5)
    given, upstream = launcher.moved_in(x), launcher.moved_in(gradient)
    on_cpu = WindowReductions(np)
    found = [
        pooling.max_pool(launcher, given, geometry),
        pooling.max_pool_gradient(launcher, given, upstream, geometry),
        pooling.avg_pool(launcher, given, geometry),
        pooling.avg_pool_gradient(launcher, upstream, geometry),
    ]
    wanted = [
        on_cpu.maximum(x, geometry),
        on_cpu.maximum_gradient(x, gradient, geometry),
        on_cpu.mean(x, geometry),
        on_cpu.mean_gradient(gradient, geometry),
    ]
    return found, wanted


def response_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    attrs: dict[str, Any] = {"depth_radius": 5, "bias": 1.0, "alpha": 1e-2, "beta": 0.75}
    x, gradient = _floats(source, size, 5, 5, 48), _floats(source, size, 5, 5, 48)
    given = launcher.moved_in(x)
    y = response_norm.response_norm(launcher, given, **attrs)
    dx = response_norm.response_norm_gradient(launcher, launcher.moved_in(gradient), given, y, **attrs)
    wanted = norms.lrn(np, x, **attrs)
    return [y, dx], [wanted, norms.lrn_grad(np, gradient, x, wanted, **attrs)]


def batch_norm_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    x, gradient, scale, offset = (_floats(source, *shape) for shape in [(size, 9, 9, 19)] * 2 + [(19,)] * 2)
    given, upstream, *vectors = (launcher.moved_in(v) for v in (x, gradient, scale, offset))
    y, statistics = batch_norm.by_batch_statistics(launcher, given, *vectors, epsilon=1e-3)
    found = batch_norm.gradients(
        launcher,
        upstream,
        given,
        vectors[0],
        statistics.mean,
        statistics.biased,
        epsilon=1e-3,
        is_training=True,
    )
    flat, slopes, on_cpu = x.reshape(-1, 19), gradient.reshape(-1, 19), norms.Normalization(np)
    normal, mean, biased = on_cpu.normalized_by_itself(flat, scale, offset, 1e-3)
    dx, *sums = on_cpu.gradients(flat, slopes, scale, mean, biased, 1e-3, True)
    return [y, statistics.mean, *found], [normal.reshape(x.shape), mean, dx.reshape(x.shape), *sums]


def rows_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    params, indices = _floats(source, 50 * size, 12), source.integers(0, 50 * size, 40 * size)
    picked = rows.gather(launcher, launcher.moved_in(params), launcher.moved_in(indices), alignment=256)
    ids, order = rows.sorted_positions(np, indices % 11)
    out, wanted = launcher.moved_in(params[:11]), params[:11].copy()
    added = params[: len(ids)]
    add_rows(np, wanted, indices % 11, added)
    rows.add_rows(
        launcher, out, launcher.moved_in(ids), launcher.moved_in(added), order=launcher.moved_in(order)
    )
    return [picked, out], [params[indices], wanted]


def optimizers_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    numbers = {
        "beta1_power": 0.9,
        "beta2_power": 0.99,
        "lr": 0.1,
        "beta1": 0.9,
        "beta2": 0.99,
        "epsilon": 1e-8,
    }
    shapes = [(100 * size, 7), (3,), (2048,)]
    made = [[np.abs(_floats(source, *shape)) for _ in range(4)] for shape in shapes]
    on_card = [[launcher.moved_in(array) for array in arrays] for arrays in made]
    updated = [optimizers.UpdatedVariable(arrays[:-1], arrays[-1]) for arrays in on_card]
    optimizers.apply_all(launcher, "Adam", updated, {**numbers, "use_nesterov": False})
    rule = dense_updates()["ResourceApplyAdam"].rule
    for arrays in made:
        rule(np, *arrays, **{k: np.float32(v) for k, v in numbers.items()}, use_nesterov=False)
    return [a for arrays in on_card for a in arrays], [a for arrays in made for a in arrays]


def random_case(launcher: Any, source: np.random.Generator, size: int) -> tuple[Results, Results]:
    key, start, count = int(source.integers(1 << 62)), (5 << 64) + (1 << 64) - 3, 1000 * size + 1
    found = [
        random_numbers.draw(launcher, name, key, start, count, float32)
        for name in random_numbers.DISTRIBUTIONS
    ]
    found.append(random_numbers.draw_integers(launcher, key, start, count, -9, 1 << 40, int64))
    wanted = [
        philox.uniform(np, key, start, count, float32),
        philox.normal(np, key, start, count, float32),
        philox.truncated_normal(np, key, start, count, float32),
        philox.uniform_integers(np, key, start, count, -9, 1 << 40, int64),
    ]
    return found, wanted


#: {case: (what is computed, how far it may be off, relative and absolute; None for equal bits)}.
CASES: dict[str, tuple[Case, tuple[float, float] | None]] = {
    "softmax": (softmax_case, (1e-5, 1e-6)),
    "bias": (bias_case, (1e-5, 1e-3)),
    "pooling": (pooling_case, None),
    "random": (random_case, None),
    "response_norm": (response_case, (1e-5, 1e-5)),
    "batch_norm": (batch_norm_case, (1e-4, 2e-3)),
    "rows": (rows_case, None),
    "optimizers": (optimizers_case, None),
}


def agreement(launcher: Any, size: int) -> ResultTable:
    """Each case beside the CPU, and its bits in three runs."""
    table = ResultTable("Kernels beside the CPU's", ("family", "arrays", "largest difference", "three runs"))
    for name, (case, tolerance) in CASES.items():
        runs: list[list[Any]] = []
        wanted: Results = ()
        for _ in range(3):
            found, wanted = case(launcher, np.random.default_rng(size), size)
            runs.append([launcher.moved_out(array) for array in found])
        launcher.check()
        bits = [[array.tobytes() for array in run] for run in runs]
        alike = bits[0] == bits[1] == bits[2]
        off = [np.abs(a.astype(np.float64) - b) for a, b in zip(runs[0], wanted, strict=True)]
        largest = max(float(each.max(initial=0)) for each in off)
        allowed = (0.0, 0.0) if tolerance is None else tolerance
        kept = all(
            bool((each <= allowed[1] + allowed[0] * np.abs(b)).all())
            for each, b in zip(off, wanted, strict=True)
        )
        if not kept:
            table.failures.append(f"{name} is off by {largest:.3g}")
        if not alike:
            table.failures.append(f"{name} has other bits in another run")
        table.rows.append((name, str(len(wanted)), f"{largest:.3g}", "equal bits" if alike else "differ"))
    return table


__all__ = ["CASES", "FAMILIES", "agreement"]
