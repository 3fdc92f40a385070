"""Files, readers and checkpoints of the first and second format."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
define(
    "IdentityReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "IdentityReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "LMDBReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define("MatchingFiles", inputs=["pattern: string"], outputs=["filenames: string"])
define(
    "MergeV2Checkpoints",
    inputs=["checkpoint_prefixes: string", "destination_prefix: string"],
    attrs=["delete_old_dirs: bool = true"],
    is_stateful=True,
)
define("ReadFile", inputs=["filename: string"], outputs=["contents: string"])
define("ReaderNumRecordsProduced", inputs=["reader_handle: Ref(string)"], outputs=["records_produced: int64"])
define(
    "ReaderNumRecordsProducedV2",
    inputs=["reader_handle: resource"],
    outputs=["records_produced: int64"],
    is_stateful=True,
)
define(
    "ReaderNumWorkUnitsCompleted", inputs=["reader_handle: Ref(string)"], outputs=["units_completed: int64"]
)
define(
    "ReaderNumWorkUnitsCompletedV2",
    inputs=["reader_handle: resource"],
    outputs=["units_completed: int64"],
    is_stateful=True,
)
define(
    "ReaderRead",
    inputs=["reader_handle: Ref(string)", "queue_handle: Ref(string)"],
    outputs=["key: string", "value: string"],
)
define(
    "ReaderReadUpTo",
    inputs=["reader_handle: Ref(string)", "queue_handle: Ref(string)", "num_records: int64"],
    outputs=["keys: string", "values: string"],
)
define(
    "ReaderReadUpToV2",
    inputs=["reader_handle: resource", "queue_handle: resource", "num_records: int64"],
    outputs=["keys: string", "values: string"],
    is_stateful=True,
)
define(
    "ReaderReadV2",
    inputs=["reader_handle: resource", "queue_handle: resource"],
    outputs=["key: string", "value: string"],
    is_stateful=True,
)
define("ReaderReset", inputs=["reader_handle: Ref(string)"])
define("ReaderResetV2", inputs=["reader_handle: resource"], is_stateful=True)
define("ReaderRestoreState", inputs=["reader_handle: Ref(string)", "state: string"])
define("ReaderRestoreStateV2", inputs=["reader_handle: resource", "state: string"], is_stateful=True)
define("ReaderSerializeState", inputs=["reader_handle: Ref(string)"], outputs=["state: string"])
define(
    "ReaderSerializeStateV2", inputs=["reader_handle: resource"], outputs=["state: string"], is_stateful=True
)
define(
    "Restore",
    inputs=["file_pattern: string", "tensor_name: string"],
    outputs=["tensor: dt"],
    attrs=["dt: type", "preferred_shard: int = -1"],
    is_stateful=True,
)
define(
    "RestoreSlice",
    inputs=["file_pattern: string", "tensor_name: string", "shape_and_slice: string"],
    outputs=["tensor: dt"],
    attrs=["dt: type", "preferred_shard: int = -1"],
    is_stateful=True,
)
define(
    "RestoreV2",
    inputs=["prefix: string", "tensor_names: string", "shape_and_slices: string"],
    outputs=["tensors: dtypes"],
    attrs=["dtypes: list(type) >= 1"],
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
define(
    "ShardedFilename",
    inputs=["basename: string", "shard: int32", "num_shards: int32"],
    outputs=["filename: string"],
)
define("ShardedFilespec", inputs=["basename: string", "num_shards: int32"], outputs=["filename: string"])
define(
    "TFRecordReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""', 'compression_type: string = ""'],
    is_stateful=True,
)
define(
    "TFRecordReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""', 'compression_type: string = ""'],
    is_stateful=True,
)
define(
    "TextLineReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=["skip_header_lines: int = 0", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "TextLineReaderV2",
    outputs=["reader_handle: resource"],
    attrs=["skip_header_lines: int = 0", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "WholeFileReader",
    outputs=["reader_handle: Ref(string)"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "WholeFileReaderV2",
    outputs=["reader_handle: resource"],
    attrs=['container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define("WriteFile", inputs=["filename: string", "contents: string"], is_stateful=True)
