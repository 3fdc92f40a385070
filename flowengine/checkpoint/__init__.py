"""Checkpoints in TensorFlow's own formats, read and written.

`BundleReader` and `BundleWriter` are for format V2, the one in use: an index, `model.ckpt.index`, and data
files beside it. `V1Reader` and `V1Writer` are for the single file that came before. Names are bytes; element
types are given, because arrays do not tell `qint8` from `int8`.
"""

from __future__ import annotations

from flowengine.checkpoint.elements import Check, never
from flowengine.checkpoint.files import FileLayer, index_path
from flowengine.checkpoint.merge import merge_bundles
from flowengine.checkpoint.parallel import read_many
from flowengine.checkpoint.reader import BundleReader
from flowengine.checkpoint.v1 import V1Reader, V1Writer
from flowengine.checkpoint.writer import BundleWriter
from flowengine.core.files.access import SYSTEM, Files

__all__ = [
    "BundleReader",
    "BundleWriter",
    "FileLayer",
    "V1Reader",
    "V1Writer",
    "merge_bundles",
    "open_checkpoint",
    "read_many",
]


def open_checkpoint(prefix: str, *, check: Check = never, files: Files = SYSTEM) -> BundleReader | V1Reader:
    """The checkpoint under a prefix, of format V2 if there is an index, else of format V1.

    Raises NotFoundError where there is neither, DataLossError where it is damaged.
    """
    if files.exists(index_path(prefix)):
        return BundleReader(prefix, check=check, files=files)
    return V1Reader(prefix, check=check, files=files)
