"""Records read from files by readers and batches."""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, two_strings, vector, vectors

# Readers of records in files.

#: The handle is of a reader.
USES_READER: Final = Uses("reader_handle")
_NAMED: Final = "stateful; container, shared_name: string = ''"

define(
    "FixedLengthRecordReader() -> reader_handle: Ref(string)",
    "stateful; header_bytes: int = 0; record_bytes: int; footer_bytes, hop_bytes: int = 0",
    "container, shared_name: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "IdentityReader() -> reader_handle: Ref(string)",
    _NAMED,
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "LMDBReader, WholeFileReader() -> reader_handle: Ref(string)",
    _NAMED,
    ReadsFiles(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "TFRecordReader() -> reader_handle: Ref(string)",
    "stateful; container, shared_name, compression_type: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "TextLineReader() -> reader_handle: Ref(string)",
    "stateful; skip_header_lines: int = 0; container, shared_name: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "FixedLengthRecordReaderV2() -> reader_handle: resource",
    "stateful; header_bytes: int = 0; record_bytes: int; footer_bytes, hop_bytes: int = 0",
    "container, shared_name, encoding: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define("IdentityReaderV2() -> reader_handle: resource", _NAMED, NotDifferentiable(), shape=scalars)
define(
    "WholeFileReaderV2() -> reader_handle: resource",
    _NAMED,
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TFRecordReaderV2() -> reader_handle: resource",
    "stateful; container, shared_name, compression_type: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "TextLineReaderV2() -> reader_handle: resource",
    "stateful; skip_header_lines: int = 0; container, shared_name: string = ''",
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderNumRecordsProduced(reader_handle: Ref(string)) -> records_produced: int64",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderNumRecordsProducedV2(reader_handle: resource) -> records_produced: int64",
    "stateful",
    USES_READER,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderNumWorkUnitsCompleted(reader_handle: Ref(string)) -> units_completed: int64",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderNumWorkUnitsCompletedV2(reader_handle: resource) -> units_completed: int64",
    "stateful",
    USES_READER,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderRead(reader_handle, queue_handle: Ref(string)) -> key, value: string",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderReadV2(reader_handle, queue_handle: resource) -> key, value: string",
    "stateful",
    Uses("reader_handle", "queue_handle"),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderSerializeState(reader_handle: Ref(string)) -> state: string", NotDifferentiable(), shape=scalars
)
define(
    "ReaderSerializeStateV2(reader_handle: resource) -> state: string",
    "stateful",
    USES_READER,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "ReaderReadUpTo(reader_handle, queue_handle: Ref(string), num_records: int64) -> keys, values: string",
    NotDifferentiable(),
    shape=vectors,
)
define(
    "ReaderReadUpToV2(reader_handle, queue_handle: resource, num_records: int64) -> keys, values: string",
    "stateful",
    Uses("reader_handle", "queue_handle"),
    NotDifferentiable(),
    shape=vectors,
)
define("ReaderReset(reader_handle: Ref(string))", NotDifferentiable())
define("ReaderResetV2(reader_handle: resource)", "stateful", USES_READER, NotDifferentiable())
define("ReaderRestoreState(reader_handle: Ref(string), state: string)", NotDifferentiable())
define(
    "ReaderRestoreStateV2(reader_handle: resource, state: string)",
    "stateful",
    USES_READER,
    NotDifferentiable(),
)


# Random records of many files, without a queue.


@define(
    "RecordInput() -> records: string",
    "stateful; file_pattern: string; file_random_seed: int = 301; file_shuffle_shift_ratio: float = 0.0",
    "file_buffer_size: int = 10000; file_parallelism: int = 16; batch_size: int = 32",
    "compression_type: string = ''",
    ReadsFiles("file_pattern"),
    NotDifferentiable(),
)
def record_input(c: ShapeContext) -> Shapes:
    return [vector(c.attrs["batch_size"])]
