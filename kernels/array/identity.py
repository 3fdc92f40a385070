"""Inputs passed on: identities, checks, copies and watches of a debugger."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value, is_tensor, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import AbortedError, InvalidArgumentError, UnimplementedError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.common.array_args import brackets, outputs, shape_of
from flowengine.kernels.registry import kernel

# Kernels that pass their inputs on: identities, no-ops, and the checks that do nothing else.


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


# Watches over tensors, as TensorFlow's debugger puts them into graphs.
#
# Where `debug_urls` name files or servers, what is seen would be sent there: that is not done here, and
# said.

_COUNTED: Final = (
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)


def _check_urls(debug_urls: tuple[bytes, ...]) -> None:
    if debug_urls:
        urls = ", ".join(url.decode("utf-8", "backslashreplace") for url in debug_urls)
        raise UnimplementedError(f"nothing is sent to debug_urls ({urls}): take them off the node")


@kernel("DebugIdentity", "DebugIdentityV3", device=None, heavy=False)
def debug_identity(x: Value, *, debug_urls: tuple[bytes, ...]) -> Value:
    """The input itself."""
    _check_urls(debug_urls)
    return x


@kernel("DebugIdentityV2", device=None, heavy=False)
def debug_identity_v2(x: Value, *, debug_urls: tuple[bytes, ...]) -> Value:
    """The input itself."""
    _check_urls(debug_urls)
    return x


@kernel("DebugNanCount", types={"T": _COUNTED}, fresh=True)
def debug_nan_count(xp: Any, x: Array, *, debug_urls: tuple[bytes, ...]) -> Any:
    """How many elements are NaN (int64, one element)."""
    _check_urls(debug_urls)
    return xp.isnan(x).sum(dtype=np.int64).reshape(1)


_SUMMED: Final = (*_COUNTED, "bool")
#: A float32 has 24 bits, so greater integers are not exact.
_EXACT: Final = 1 << 24


def _counts(xp: Any, x: Array, low: float, high: float) -> tuple[Any, list[Any]]:
    """(which are finite, how many are NaN, at or below a bound, negative, 0, positive, at or above one)"""
    finite = xp.isfinite(x)
    below, above = (x < 0) & (x <= low), (x > 0) & (x >= high)
    kinds = [xp.isnan(x), below, (x < 0) & ~below, x == 0, (x > 0) & ~above, above]
    return finite, [kind.sum(dtype=np.int64) for kind in kinds]


@kernel("DebugNumericSummary", types={"T": _SUMMED}, fresh=True)
def debug_numeric_summary(
    xp: Any,
    x: Array,
    *,
    debug_urls: tuple[bytes, ...],
    lower_bound: float,
    upper_bound: float,
    T: DType,
) -> Any:
    """Counts of each kind; least, greatest, mean, variance of what is finite; type and shape (float64)."""
    _check_urls(debug_urls)
    wide = x.astype(np.float64)
    finite, counts = _counts(xp, wide, lower_bound, upper_bound)
    number = finite.sum(dtype=np.int64)
    kept = xp.where(finite, wide, np.float64(0))
    mean = kept.sum() / number
    variance = xp.where(finite, (wide - mean) ** 2, np.float64(0)).sum() / number
    ends = [
        xp.where(finite, wide, np.float64(np.inf)).min() if x.size else np.inf,
        xp.where(finite, wide, np.float64(-np.inf)).max() if x.size else -np.inf,
    ]
    facts = [1, x.size, *counts, *ends, mean, variance, T.base.number, x.ndim, *x.shape]
    return xp.stack([xp.asarray(each, dtype=np.float64) for each in facts])


@kernel("DebugNumericSummaryV2", types={"T": _SUMMED}, fresh=True)
def debug_numeric_summary_v2(
    xp: Any, x: Array, *, tensor_debug_mode: int, tensor_id: int, output_dtype: DType, T: DType
) -> Any:
    """Summarise a tensor by mode: whether it is finite, counts of each kind, type and shape."""
    kind = output_dtype.as_numpy_dtype
    if kind == np.float32 and abs(tensor_id) > _EXACT:
        raise InvalidArgumentError(
            f"tensor_id {tensor_id} is greater than float32 tells exactly: take float64"
        )
    wide = x.astype(np.float64)
    _, (nan, below, negative, zero, positive, above) = _counts(xp, wide, -np.inf, np.inf)
    if tensor_debug_mode == 2:
        facts = [tensor_id, (nan + below + above) > 0]
    elif tensor_debug_mode == 3:
        facts = [tensor_id, x.size, below, above, nan]
    elif tensor_debug_mode == 4:
        # The second is the device, which TensorFlow's kernels leave at -1.
        facts = [tensor_id, -1, T.base.number, x.ndim, x.size, below, above, nan, negative, zero, positive]
    elif tensor_debug_mode == 5:
        last = x.shape[-6:]
        facts = [tensor_id, T.base.number, x.ndim, x.size, *last, *[0] * (6 - len(last))]
    elif tensor_debug_mode == 8:
        signs = zip((below, above, nan), (-np.inf, np.inf, np.nan), strict=True)
        facts = [xp.where(count > 0, np.float64(value), np.float64(0)) for count, value in signs]
    else:
        raise UnimplementedError(
            f"Unsupported tensor debug mode: {tensor_debug_mode}; 2, 3, 4, 5 and 8 are known"
        )
    return xp.stack([xp.asarray(each, dtype=np.float64) for each in facts]).astype(kind)


# Copies of a tensor, which TensorFlow's debugger puts between a node and the one that records it.


@kernel("Copy", "CopyHost", device=None)
def copy(x: Value) -> Value:
    """The same values, in memory of their own where they are numbers."""
    return x.copy() if getattr(x, "ndim", 0) else x
