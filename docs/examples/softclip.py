"""An op of one's own, for this process and for `flowengine run --import softclip`: a clip without corners.

SoftClip(x, limit) = x / (1 + |x| / limit)
"""

from typing import Any

import numpy as np

from flowengine import OpDef
from flowengine.kernels.registry import kernel
from flowengine.ops.load import registry

registry().register(OpDef.parse("SoftClip(x: T, limit: T) -> y: T", "T: {float, double}"))


@kernel("SoftClip")
def soft_clip(x: Any, limit: Any) -> Any:
    return x / (1 + np.abs(x) / limit)
