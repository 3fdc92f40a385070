"""Whole files in and out, and the names that match a pattern."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import ReadsFiles, WritesFiles
from flowengine.ir.traits import Impure, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars, vectors

define(
    "ReadFile(filename: string) -> contents: string",
    Impure(),
    ReadsFiles(),
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MatchingFiles(pattern: string) -> filenames: string",
    Impure(),
    ReadsFiles(),
    NotDifferentiable(),
    shape=vectors,
)
define("WriteFile(filename, contents: string)", "stateful", WritesFiles(), NotDifferentiable())
