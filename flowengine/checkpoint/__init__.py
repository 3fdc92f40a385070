"""Checkpoints in TensorFlow's own formats, read and written.

`BundleReader` and `BundleWriter` are for format V2, the one in use: an index, `model.ckpt.index`, and data
files beside it. Names are bytes; element types are given, because arrays do not tell `qint8` from `int8`.
"""

from __future__ import annotations

from flowengine.checkpoint.files import FileLayer
from flowengine.checkpoint.merge import merge_bundles
from flowengine.checkpoint.reader import BundleReader
from flowengine.checkpoint.writer import BundleWriter

__all__ = ["BundleReader", "BundleWriter", "FileLayer", "merge_bundles"]
