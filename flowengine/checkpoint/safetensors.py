"""Writing safetensors files: a header of JSON that says where each tensor is, and the tensors' bytes.

Tensors are written one after the other and none is held, so a file may be larger than memory.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from flowengine.checkpoint.elements import numeric_pieces
from flowengine.core.arrays import Array
from flowengine.core.dtypes import DType
from flowengine.core.errors import UnimplementedError

#: What the format calls each element type that it has.
_KINDS: Final = {
    "bfloat16": "BF16",
    "bool": "BOOL",
    "complex64": "C64",
    "float16": "F16",
    "float32": "F32",
    "float64": "F64",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int16": "I16",
    "int32": "I32",
    "int64": "I64",
    "int8": "I8",
    "uint16": "U16",
    "uint32": "U32",
    "uint64": "U64",
    "uint8": "U8",
}


def write_safetensors(
    write: Callable[[Any], object],
    tensors: Sequence[tuple[str, DType, Sequence[int]]],
    read: Callable[[str], Array],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write a file through a function that appends bytes to it.

    tensors   (name, type, shape) of each, in the order of the file
    read      gives the values of one when its turn has come

    Raises UnimplementedError naming a tensor of a type that the format does not have (strings, complex128).
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    position = 0
    for name, dtype, shape in tensors:
        if dtype.name not in _KINDS:
            raise UnimplementedError(
                f"tensor '{name}' is of type {dtype}, which a safetensors file cannot hold: leave it out, or "
                "export to .npz"
            )
        end = position + math.prod(shape) * dtype.size
        header[name] = {"dtype": _KINDS[dtype.name], "shape": list(shape), "data_offsets": [position, end]}
        position = end
    encoded = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    encoded += b" " * (-len(encoded) % 8)  # the values begin at a multiple of 8
    write(len(encoded).to_bytes(8, "little") + encoded)
    for name, _, _ in tensors:
        for piece in numeric_pieces(read(name)):
            write(piece)
