"""Writers of event files."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they write files: tests/kernels/test_summary_writers.py": """
        CloseSummaryWriter CreateSummaryFileWriter FlushSummaryWriter ImportEvent SummaryWriter
        WriteAudioSummary WriteGraphSummary WriteHistogramSummary WriteImageSummary
        WriteRawProtoSummary WriteScalarSummary WriteSummary
    """,
}
