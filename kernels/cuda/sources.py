"""The texts of the kernels that are kept as files, by family: what they stand behind comes along.

    text = source("bias", "softmax")                         # to be compiled behind `elementwise.prelude()`
    text = source("pooling", only=type_of("pooling", "max_pool_float32"))

Most families have each kernel for several types, of which a session has use for one or two: they are
compiled by type.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from flowengine.core.errors import InvalidArgumentError

_FOLDER: Final = Path(__file__).with_name("sources")
#: What the families stand behind.
_BLOCKS: Final = "blocks"
FAMILIES: Final = (
    *("batch_norm", "bias", "optimizers", "pooling", "random", "response_norm", "rows", "softmax"),
)
#: Types as kernels' names have them.
TYPES: Final = (
    *("float16", "bfloat16", "float32", "float64"),
    *("int8", "uint8", "int16", "uint16", "int32", "int64"),
)
#: Families whose kernels are of the first type in their names, and worth being compiled one type at a time.
_BY_TYPE: Final = frozenset({"bias", "optimizers", "pooling", "response_norm", "softmax"})


@lru_cache(maxsize=16)
def _text(name: str) -> str:
    return (_FOLDER / f"{name}.cuh").read_text()


def type_of(family: str, kernel: str) -> str:
    """The type that a kernel is compiled for; empty where its family is compiled for all."""
    if family not in _BY_TYPE:
        return ""
    return next((word for word in kernel.split("_") if word in TYPES), "")


def source(*families: str, only: str = "") -> str:
    """The kernels of these families, each once, or those of one type; InvalidArgumentError for a family that
    there is not."""
    for family in families:
        if family not in FAMILIES:
            raise InvalidArgumentError(
                f"there are no CUDA kernels of the family '{family}': there are {', '.join(FAMILIES)}"
            )
    made = [f"#define FE_OF_{word} {int(word == only or not only)}" for word in TYPES]
    return "\n".join([*made, *map(_text, (_BLOCKS, *dict.fromkeys(families)))])


__all__ = ["FAMILIES", "TYPES", "source", "type_of"]
