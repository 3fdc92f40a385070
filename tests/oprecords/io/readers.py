"""Records read from files by readers and batches."""

from __future__ import annotations

from typing import Final

# Readers of records in files.

#: {why they have no record: ops}


# Random records of many files, without a queue.

#: {why they have no record: ops}

EXCUSED: Final = {
    "they touch files and streams: tests/kernels, tests/conformance": """
        FixedLengthRecordReader FixedLengthRecordReaderV2 IdentityReader IdentityReaderV2 LMDBReader
        ReaderNumRecordsProduced ReaderNumRecordsProducedV2 ReaderNumWorkUnitsCompleted
        ReaderNumWorkUnitsCompletedV2 ReaderRead ReaderReadUpTo ReaderReadUpToV2 ReaderReadV2
        ReaderReset ReaderResetV2 ReaderRestoreState ReaderRestoreStateV2 ReaderSerializeState
        ReaderSerializeStateV2 TFRecordReader TFRecordReaderV2 TextLineReader TextLineReaderV2
        WholeFileReader WholeFileReaderV2 RecordInput
    """,
}
