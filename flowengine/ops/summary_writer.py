"""Writers of event files."""

from __future__ import annotations

from flowengine.ops.registry import define

define("CloseSummaryWriter", inputs=["writer: resource"], is_stateful=True)
define(
    "CreateSummaryDbWriter",
    inputs=[
        "writer: resource",
        "db_uri: string",
        "experiment_name: string",
        "run_name: string",
        "user_name: string",
    ],
    is_stateful=True,
)
define(
    "CreateSummaryFileWriter",
    inputs=[
        "writer: resource",
        "logdir: string",
        "max_queue: int32",
        "flush_millis: int32",
        "filename_suffix: string",
    ],
    is_stateful=True,
)
define("FlushSummaryWriter", inputs=["writer: resource"], is_stateful=True)
define("ImportEvent", inputs=["writer: resource", "event: string"], is_stateful=True)
define(
    "SummaryWriter",
    outputs=["writer: resource"],
    attrs=['shared_name: string = ""', 'container: string = ""'],
    is_stateful=True,
)
define(
    "WriteAudioSummary",
    inputs=["writer: resource", "step: int64", "tag: string", "tensor: float", "sample_rate: float"],
    attrs=["max_outputs: int >= 1 = 3"],
    is_stateful=True,
)
define("WriteGraphSummary", inputs=["writer: resource", "step: int64", "tensor: string"], is_stateful=True)
define(
    "WriteHistogramSummary",
    inputs=["writer: resource", "step: int64", "tag: string", "values: T"],
    attrs=["T: realnumbertype = float"],
    is_stateful=True,
)
define(
    "WriteImageSummary",
    inputs=["writer: resource", "step: int64", "tag: string", "tensor: T", "bad_color: uint8"],
    attrs=["max_images: int >= 1 = 3", "T: {uint8, float, half} = float"],
    is_stateful=True,
)
define("WriteRawProtoSummary", inputs=["writer: resource", "step: int64", "tensor: string"], is_stateful=True)
define(
    "WriteScalarSummary",
    inputs=["writer: resource", "step: int64", "tag: string", "value: T"],
    attrs=["T: realnumbertype"],
    is_stateful=True,
)
define(
    "WriteSummary",
    inputs=["writer: resource", "step: int64", "tensor: T", "tag: string", "summary_metadata: string"],
    attrs=["T: type"],
    is_stateful=True,
)
