"""Summaries as serialised protocol buffers."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is a serialized message: tests/conformance": """
        HistogramSummary MergeSummary ScalarSummary
    """,
}
