"""Writers of event files, and what they write."""

from __future__ import annotations

from flowengine.ops.registry import define

define("CloseSummaryWriter(writer: resource)", "stateful")
define(
    "CreateSummaryDbWriter(writer: resource, db_uri, experiment_name, run_name, user_name: string)",
    "stateful",
)
define(
    "CreateSummaryFileWriter(writer: resource, logdir: string, max_queue, flush_millis: int32, "
    "filename_suffix: string)",
    "stateful",
)
define("FlushSummaryWriter(writer: resource)", "stateful")
define("ImportEvent(writer: resource, event: string)", "stateful")
define("SummaryWriter() -> writer: resource", "stateful; shared_name, container: string = ''")
define(
    "WriteAudioSummary(writer: resource, step: int64, tag: string, tensor, sample_rate: float)",
    "stateful; max_outputs: int >= 1 = 3",
)
define("WriteGraphSummary(writer: resource, step: int64, tensor: string)", "stateful")
define(
    "WriteHistogramSummary(writer: resource, step: int64, tag: string, values: T)",
    "stateful; T: realnumbertype = float",
)
define(
    "WriteImageSummary(writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8)",
    "stateful; max_images: int >= 1 = 3; T: {uint8, float, half} = float",
)
define("WriteRawProtoSummary(writer: resource, step: int64, tensor: string)", "stateful")
define(
    "WriteScalarSummary(writer: resource, step: int64, tag: string, value: T)", "stateful; T: realnumbertype"
)
define(
    "WriteSummary(writer: resource, step: int64, tensor: T, tag, summary_metadata: string)",
    "stateful; T: type",
)
