"""Writers of event files, and what they write."""

from __future__ import annotations

from typing import Final

from flowengine.ir.trait_checks.outward import WritesFiles
from flowengine.ir.traits import Bookkeeping, NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: What is written is for people to see.
WRITES_EVENTS: Final = (Uses("writer"), Bookkeeping())

define("CloseSummaryWriter(writer: resource)", "stateful", Uses("writer"), NotDifferentiable())
define(
    "CreateSummaryDbWriter(writer: resource, db_uri, experiment_name, run_name, user_name: string)",
    "stateful",
    Uses("writer"),
    WritesFiles(),
    NotDifferentiable(),
)
define(
    "CreateSummaryFileWriter(writer: resource, logdir: string, max_queue, flush_millis: int32, "
    "filename_suffix: string)",
    "stateful",
    Uses("writer"),
    WritesFiles(),
    NotDifferentiable(),
)
define("FlushSummaryWriter(writer: resource)", "stateful", Uses("writer"), NotDifferentiable())
define("ImportEvent(writer: resource, event: string)", "stateful", Uses("writer"), NotDifferentiable())
define(
    "SummaryWriter() -> writer: resource",
    "stateful; shared_name, container: string = ''",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "WriteAudioSummary(writer: resource, step: int64, tag: string, tensor, sample_rate: float)",
    "stateful; max_outputs: int >= 1 = 3",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteGraphSummary(writer: resource, step: int64, tensor: string)",
    "stateful",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteHistogramSummary(writer: resource, step: int64, tag: string, values: T)",
    "stateful; T: numberorbooltype = float",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteImageSummary(writer: resource, step: int64, tag: string, tensor: T, bad_color: uint8)",
    "stateful; max_images: int >= 1 = 3; T: {uint8, double, float, half} = float",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteRawProtoSummary(writer: resource, step: int64, tensor: string)",
    "stateful",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteScalarSummary(writer: resource, step: int64, tag: string, value: T)",
    "stateful; T: realnumbertype",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
define(
    "WriteSummary(writer: resource, step: int64, tensor: T, tag, summary_metadata: string)",
    "stateful; T: type",
    *WRITES_EVENTS,
    NotDifferentiable(),
)
