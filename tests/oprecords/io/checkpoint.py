"""Saving and restoring checkpoints of format V2."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename ShardedFilespec
    """,
}
