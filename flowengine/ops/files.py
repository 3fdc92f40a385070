"""Files, readers and checkpoints of the first and second format."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.arrays import to_array
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, two_strings, vectors

define(
    "FixedLengthRecordReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=[
        "header_bytes: int = 0",
        "record_bytes: int",
        "footer_bytes: int = 0",
        "hop_bytes: int = 0",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "IdentityReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "LMDBReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "TFRecordReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""', 'compression_type: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "TextLineReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=["skip_header_lines: int = 0", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "WholeFileReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=two_strings,
)
define(
    "FixedLengthRecordReaderV2",
    outputs=["reader_handle: resource"],
    attrs=[
        "header_bytes: int = 0",
        "record_bytes: int",
        "footer_bytes: int = 0",
        "hop_bytes: int = 0",
        'container: string = ""',
        'shared_name: string = ""',
        'encoding: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "IdentityReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "TFRecordReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""', 'compression_type: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "TextLineReaderV2",
    outputs=["reader_handle: resource"],
    attrs=["skip_header_lines: int = 0", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define(
    "WholeFileReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
    shape=scalars,
)
define("ReadFile", inputs=["filename: string"], outputs=["contents: string"], shape=scalars)
define(
    "ReaderNumRecordsProduced",
    inputs=["reader_handle: Ref(string)"],
    outputs=["records_produced: int64"],
    shape=scalars,
)
define(
    "ReaderNumRecordsProducedV2",
    inputs=["reader_handle: resource"],
    outputs=["records_produced: int64"],
    is_stateful=True,
    shape=scalars,
)
define(
    "ReaderNumWorkUnitsCompleted",
    inputs=["reader_handle: Ref(string)"],
    outputs=["units_completed: int64"],
    shape=scalars,
)
define(
    "ReaderNumWorkUnitsCompletedV2",
    inputs=["reader_handle: resource"],
    outputs=["units_completed: int64"],
    is_stateful=True,
    shape=scalars,
)
define(
    "ReaderRead",
    inputs=["reader_handle: Ref(string)", "queue_handle: Ref(string)"],
    outputs=["key: string", "value: string"],
    shape=scalars,
)
define(
    "ReaderReadV2",
    inputs=["reader_handle: resource", "queue_handle: resource"],
    outputs=["key: string", "value: string"],
    is_stateful=True,
    shape=scalars,
)
define(
    "ReaderSerializeState", inputs=["reader_handle: Ref(string)"], outputs=["state: string"], shape=scalars
)
define(
    "ReaderSerializeStateV2",
    inputs=["reader_handle: resource"],
    outputs=["state: string"],
    is_stateful=True,
    shape=scalars,
)
define(
    "ShardedFilename",
    inputs=["basename: string", "shard: int32", "num_shards: int32"],
    outputs=["filename: string"],
    shape=scalars,
)
define(
    "ShardedFilespec",
    inputs=["basename: string", "num_shards: int32"],
    outputs=["filename: string"],
    shape=scalars,
)
define("MatchingFiles", inputs=["pattern: string"], outputs=["filenames: string"], shape=vectors)
define(
    "ReaderReadUpTo",
    inputs=["reader_handle: Ref(string)", "queue_handle: Ref(string)", "num_records: int64"],
    outputs=["keys: string", "values: string"],
    shape=vectors,
)
define(
    "ReaderReadUpToV2",
    inputs=["reader_handle: resource", "queue_handle: resource", "num_records: int64"],
    outputs=["keys: string", "values: string"],
    is_stateful=True,
    shape=vectors,
)


def restore(c: ShapeContext) -> Sequence[TensorShape]:
    """The length that a slice specification gives: "4 5 0,2:0,5" is a (2, 5) part of a (4, 5) tensor."""
    specs = c.input_value(2)
    if specs is None:
        return [UNKNOWN_SHAPE] * c.num_outputs
    texts = to_array(specs).reshape(-1)
    if len(texts) != c.num_outputs:
        raise InvalidArgumentError(f"{len(texts)} slice specifications for {c.num_outputs} tensors")
    return [sliced_shape(text) for text in texts]


def sliced_shape(spec: bytes) -> TensorShape:
    """The shape of the part that "shape slice" describes; unknown for an empty or unreadable one."""
    *sizes, slices = spec.decode(errors="replace").split(" ")
    parts = slices.split(":")
    if not sizes or len(parts) != len(sizes):
        return UNKNOWN_SHAPE
    try:
        return TensorShape(
            [
                int(size) if part == "-" else int(part.split(",")[1])
                for size, part in zip(sizes, parts, strict=True)
            ]
        )
    except (ValueError, IndexError):
        return UNKNOWN_SHAPE


define(
    "RestoreV2",
    inputs=["prefix: string", "tensor_names: string", "shape_and_slices: string"],
    outputs=["tensors: dtypes"],
    attrs=["dtypes: list(type) >= 1"],
    is_stateful=True,
    shape=restore,
)


def restore_slice(c: ShapeContext) -> Sequence[TensorShape]:
    spec = c.input_value(2)
    return [UNKNOWN_SHAPE if spec is None else sliced_shape(to_array(spec).item())]


define(
    "RestoreSlice",
    inputs=["file_pattern: string", "tensor_name: string", "shape_and_slice: string"],
    outputs=["tensor: dt"],
    attrs=["dt: type", "preferred_shard: int = -1"],
    is_stateful=True,
    shape=restore_slice,
)
define(
    "MergeV2Checkpoints",
    inputs=["checkpoint_prefixes: string", "destination_prefix: string"],
    attrs=["delete_old_dirs: bool = true"],
    is_stateful=True,
)
define("ReaderReset", inputs=["reader_handle: Ref(string)"])
define("ReaderResetV2", inputs=["reader_handle: resource"], is_stateful=True)
define("ReaderRestoreState", inputs=["reader_handle: Ref(string)", "state: string"])
define("ReaderRestoreStateV2", inputs=["reader_handle: resource", "state: string"], is_stateful=True)
define(
    "Restore",
    inputs=["file_pattern: string", "tensor_name: string"],
    outputs=["tensor: dt"],
    attrs=["dt: type", "preferred_shard: int = -1"],
    is_stateful=True,
)
define(
    "Save",
    inputs=["filename: string", "tensor_names: string", "data: T"],
    attrs=["T: list(type) >= 1"],
    is_stateful=True,
)
define(
    "SaveSlices",
    inputs=["filename: string", "tensor_names: string", "shapes_and_slices: string", "data: T"],
    attrs=["T: list(type) >= 1"],
    is_stateful=True,
)
define(
    "SaveV2",
    inputs=["prefix: string", "tensor_names: string", "shape_and_slices: string", "tensors: dtypes"],
    attrs=["dtypes: list(type) >= 1"],
    is_stateful=True,
)
define("WriteFile", inputs=["filename: string", "contents: string"], is_stateful=True)
