"""Checkpoints, written and read, in both formats."""

from __future__ import annotations

from typing import Final

# Saving and restoring checkpoints of format V2.

#: {why they have no record: ops}


# Saving and restoring checkpoints of format V1.

#: {why they have no record: ops}

EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        MergeV2Checkpoints RestoreV2 SaveV2 ShardedFilename ShardedFilespec Restore RestoreSlice
        Save SaveSlices
    """,
}
