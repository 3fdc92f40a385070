"""Watches over tensors, as TensorFlow's debugger puts them into graphs.

Where `debug_urls` name files or servers, what is seen would be sent there: that is not done here, and said.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array, Value
from flowengine.core.errors import InvalidArgumentError, UnimplementedError
from flowengine.kernels.registry import kernel

_COUNTED: Final = (
    *("float32", "float64", "float16", "bfloat16", "int8", "int16", "int32", "int64"),
    *("uint8", "uint16", "uint32", "uint64"),
)


def _check(tensor_name: bytes, debug_urls: tuple[bytes, ...]) -> None:
    """InvalidArgumentError for a name that is not `node:slot`, UnimplementedError where a URL is given."""
    node, colon, slot = tensor_name.rpartition(b":")
    if not (colon and node and slot.isdigit()):
        name = tensor_name.decode("utf-8", "backslashreplace")
        raise InvalidArgumentError(f'Failed to parse tensor name: "{name}"')
    _check_urls(debug_urls)


def _check_urls(debug_urls: tuple[bytes, ...]) -> None:
    if debug_urls:
        urls = ", ".join(url.decode("utf-8", "backslashreplace") for url in debug_urls)
        raise UnimplementedError(f"nothing is sent to debug_urls ({urls}): take them off the node")


@kernel("DebugIdentity", device=None, heavy=False)
def debug_identity(x: Value, *, tensor_name: bytes, debug_urls: tuple[bytes, ...]) -> Value:
    """The input itself."""
    _check(tensor_name, debug_urls)
    return x


@kernel("DebugIdentityV2", device=None, heavy=False)
def debug_identity_v2(x: Value, *, debug_urls: tuple[bytes, ...]) -> Value:
    """The input itself."""
    _check_urls(debug_urls)
    return x


@kernel("DebugNanCount", types={"T": _COUNTED}, fresh=True)
def debug_nan_count(xp: Any, x: Array, *, tensor_name: bytes, debug_urls: tuple[bytes, ...]) -> Any:
    """How many elements are NaN (int64, one element)."""
    _check(tensor_name, debug_urls)
    return xp.isnan(x).sum(dtype=np.int64).reshape(1)
