"""Softmax, LogSoftmax and the cross entropies of nodes: `kernels/cuda/softmax.py`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.dtypes import int32, int64
from flowengine.core.errors import InvalidArgumentError, OpError
from flowengine.ir.graph import Node
from flowengine.kernels.cuda import softmax as kernels
from flowengine.kernels.cuda.serving import FLOATS, dense, serves
from flowengine.kernels.cuda.session_launcher import SessionLauncher


@serves("Softmax", family="softmax")
def softmax_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(logits: Array) -> Any:
        return kernels.softmax(launcher, dense(launcher, logits)) if logits.ndim else otherwise(logits)

    return compute


@serves("LogSoftmax", family="softmax")
def log_softmax_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(logits: Array) -> Any:
        return kernels.log_softmax(launcher, dense(launcher, logits)) if logits.ndim else otherwise(logits)

    return compute


@serves("SoftmaxCrossEntropyWithLogits", family="softmax")
def cross_entropy_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(features: Array, labels: Array) -> Any:
        if features.ndim != 2 or labels.ndim != 2 or not (features.size and labels.size):
            return otherwise(features, labels)
        for mine, other in zip(features.shape, labels.shape, strict=True):
            if mine != other and 1 not in (mine, other):
                return otherwise(features, labels)
        return kernels.cross_entropy(launcher, dense(launcher, features), dense(launcher, labels))

    return compute


@serves(
    "SparseSoftmaxCrossEntropyWithLogits",
    family="softmax",
    types={"T": FLOATS, "Tlabels": (int32, int64)},
)
def sparse_cross_entropy_kernel(
    launcher: SessionLauncher, node: Node, otherwise: Callable[..., Any]
) -> Callable[..., Any]:
    def compute(features: Array, labels: Array) -> Any:
        if features.ndim != 2 or labels.shape != features.shape[:1] or not features.size:
            return otherwise(features, labels)
        logits = dense(launcher, features)
        return kernels.sparse_cross_entropy(
            _LabelLauncher(launcher, features.shape[1]), logits, dense(launcher, labels)
        )

    return compute


class _LabelLauncher:
    """A launcher whose record tells between which labels the one that is wrong should be."""

    def __init__(self, launcher: SessionLauncher, classes: int) -> None:
        self._launcher = launcher
        self._classes = classes
        self.empty, self.moved_in = launcher.empty, launcher.moved_in
        self.address, self.launch = launcher.address, launcher.launch

    @property
    def error_record(self) -> Array:
        return self._launcher.record(self._error)

    def _error(self, record: Sequence[int]) -> OpError:
        _, label, place = record
        return InvalidArgumentError(
            f"Received a label value of {label} which is outside the valid range of [0, {self._classes}): "
            f"labels[{place}]"
        )


__all__ = ["cross_entropy_kernel", "log_softmax_kernel", "softmax_kernel", "sparse_cross_entropy_kernel"]
