"""The texts of the kernels that are kept as files, by family: what they stand behind comes along.

text = source("bias", "softmax")     # to be compiled behind `elementwise.prelude()`
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import Final

from flowengine.core.errors import InvalidArgumentError

_FOLDER: Final = Path(__file__).with_name("sources")
#: What the families stand behind.
_BLOCKS: Final = "blocks"
FAMILIES: Final = ("batch_norm", "bias", "optimizers", "pooling", "response_norm", "rows", "softmax")


@lru_cache(maxsize=16)
def _text(name: str) -> str:
    return (_FOLDER / f"{name}.cuh").read_text()


def source(*families: str) -> str:
    """The kernels of these families, each once; InvalidArgumentError for one that there is not."""
    for family in families:
        if family not in FAMILIES:
            raise InvalidArgumentError(
                f"there are no CUDA kernels of the family '{family}': there are {', '.join(FAMILIES)}"
            )
    return "\n".join(map(_text, (_BLOCKS, *dict.fromkeys(families))))


__all__ = ["FAMILIES", "source"]
