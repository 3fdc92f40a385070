"""What a graph tells whoever watches it run."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import WritesFiles
from flowengine.ir.traits import Bookkeeping, Impure, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, unchanged

define(
    "Print(input: T, data: U) -> output: T",
    "stateful; T: type; U: list(type) >= 0; message: string = ''; first_n: int = -1; summarize: int = 3",
    Impure(),
    shape=unchanged,
)
define("Timestamp() -> ts: double", "stateful", NotDifferentiable(), shape=scalars)
define(
    "PrintV2(input: string)",
    "stateful; output_stream: string = 'stderr'; end: string = '\\n'",
    Bookkeeping(),
    WritesFiles("output_stream", unless=("stderr", "stdout", "log(*")),
    NotDifferentiable(),
)
