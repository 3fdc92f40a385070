"""Lookup tables filled from the lines of text files."""

from __future__ import annotations

from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import Newer, NotDifferentiable, Starts, Uses
from flowengine.ops.registry import define

define(
    "InitializeTableFromTextFile(table_handle: Ref(string), filename: string)",
    "key_index, value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = '\\t'; "
    "offset: int = 0",
    Newer(("offset",)),
    ReadsFiles(),
    Starts("table_handle"),
    NotDifferentiable(),
)
define(
    "InitializeTableFromTextFileV2(table_handle: resource, filename: string)",
    "stateful; key_index, value_index: int >= -2; vocab_size: int >= -1 = -1; delimiter: string = '\\t'; "
    "offset: int = 0",
    Newer(("offset",)),
    Uses("table_handle"),
    ReadsFiles(),
    Starts("table_handle"),
    NotDifferentiable(),
)
