"""Kernels that pass their inputs on: identities, no-ops, and the checks that do nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np

from flowengine.core.arrays import Array, Value, is_tensor, to_array
from flowengine.core.errors import AbortedError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.array_args import brackets, outputs, shape_of
from flowengine.kernels.registry import kernel


@kernel(
    "Identity",
    "StopGradient",
    "PreventGradient",
    "Snapshot",
    "GuaranteeConst",
    "DebugGradientIdentity",
    "RefIdentity",
    "DebugGradientRefIdentity",
    device=None,
    heavy=False,
)
def identity(x: Value) -> Value:
    """The input itself; of a reference, the reference."""
    return x


@kernel("IdentityN", device=None, heavy=False)
def identity_n(values: tuple[Value, ...]) -> Value:
    """All inputs at once."""
    return outputs(values)


@kernel("DeepCopy", device=None, fresh=True)
def deep_copy(x: Value) -> Value:
    """The input in new memory."""
    return x.copy() if is_tensor(x) else x


@kernel("NoOp", device=None, heavy=False)
def no_op() -> None:
    """Nothing: a node to hang control edges on."""


@kernel("SyncDevice", device="CPU", heavy=False)
def sync_device() -> None:
    """Nothing: what a CPU has been asked for is done when its kernel returns."""


@kernel("Abort", device="CPU", heavy=False)
def abort(*, error_msg: bytes) -> None:
    """Fail the step with AbortedError. An engine inside of another program never ends its process."""
    text = error_msg.decode("utf-8", "backslashreplace")
    raise AbortedError(f"Abort_op intentional failure; {text}" if text else "Abort_op intentional failure")


@kernel("EnsureShape", device=None, heavy=False)
def ensure_shape(x: Value, *, shape: TensorShape) -> Value:
    """x; InvalidArgumentError unless its shape agrees with the attribute."""
    dims = shape_of(x)
    wanted = shape.dims
    if wanted is not None and (
        len(wanted) != len(dims) or any(w is not None and w != d for w, d in zip(wanted, dims, strict=True))
    ):
        raise InvalidArgumentError(
            f"Shape of tensor {brackets(dims)} is not compatible with expected shape {shape}"
        )
    return x


@kernel("Assert", device=None, heavy=False, host=("condition", "data"))
def assert_(condition: Array, data: tuple[Value, ...], *, summarize: int) -> None:
    """InvalidArgumentError with the first `summarize` elements of each datum unless the condition holds.

    condition   bool, rank 0
    summarize   -1 shows every element
    """
    if shape_of(condition):
        raise InvalidArgumentError(f"condition must be a scalar, but has shape {brackets(condition.shape)}")
    if not condition:
        raise InvalidArgumentError(
            "assertion failed: " + " ".join(f"[{summarize_value(d, summarize)}]" for d in data)
        )


def summarize_value(value: Value, count: int) -> str:
    """The first elements of a tensor as text, rows in brackets, `...` where something was left out.

    Of a tensor without elements nothing is shown, not even that it has rows.
    """
    array = to_array(value)
    if not array.size:  # of rows of nothing there may be 2^40
        return ""
    left = limit = array.size if count < 0 else count

    def render(part: Array) -> str:
        nonlocal left
        shown: list[str] = []
        if part.ndim == 1:
            for item in part:
                if left <= 0:
                    return " ".join(shown) + ("..." if array.ndim > 1 else "")
                left -= 1
                shown.append(_element(item))
            return " ".join(shown)
        for row in part:
            if left <= 0:
                break
            shown.append(f"[{render(row)}]")
        return "".join(shown)

    if not array.ndim:
        return _element(array[()]) if limit else "..."
    return render(array) + ("..." if array.size > limit else "")


def _element(value: Any) -> str:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(int(value)) if isinstance(value, np.bool_) else str(value)
