"""Input pipelines in Python: datasets over the engine's own resources, gone through with `async for`.

batches = fe.data.Dataset.tf_records(paths).shuffle(1000).batch(32).prefetch(2)
async for batch in batches:
    ...
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.core.public_names.missing import public_module
from flowengine.data.dataset import Dataset
from flowengine.data.elements import Elements

__all__ = ["Dataset", "Elements"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
