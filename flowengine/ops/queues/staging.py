"""Staging areas and maps, named by attributes."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import NotDifferentiable, SharedAs
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: Found by name among ordered maps.
ORDERED_MAP: Final = SharedAs("OrderedMap")

#: Of a node that brings or takes values.
STAGED: Final = (
    "capacity, memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container, shared_name: string = ''"
)
#: Of a node that asks an area.
AREA: Final = "capacity, memory_limit: int >= 0 = 0; dtypes: list(type); container, shared_name: string = ''"

define(
    "MapIncompleteSize() -> size: int32",
    "stateful",
    AREA,
    SharedAs("Map"),
    NotDifferentiable(),
    shape=scalars,
)
define("MapSize() -> size: int32", "stateful", AREA, SharedAs("Map"), NotDifferentiable(), shape=scalars)
define(
    "OrderedMapIncompleteSize() -> size: int32",
    "stateful",
    AREA,
    ORDERED_MAP,
    NotDifferentiable(),
    shape=scalars,
)
define("OrderedMapSize() -> size: int32", "stateful", AREA, ORDERED_MAP, NotDifferentiable(), shape=scalars)
define("StageSize() -> size: int32", "stateful", AREA, SharedAs("Stage"), NotDifferentiable(), shape=scalars)
define("MapClear()", "stateful", AREA, SharedAs("Map"), NotDifferentiable())
define(
    "MapPeek(key: int64, indices: int32) -> values: dtypes",
    "stateful",
    STAGED,
    SharedAs("Map"),
    NotDifferentiable(),
)
define(
    "MapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
    SharedAs("Map"),
    NotDifferentiable(),
)
define(
    "MapUnstage(key: int64, indices: int32) -> values: dtypes",
    "stateful",
    STAGED,
    SharedAs("Map"),
    NotDifferentiable(),
)
define(
    "MapUnstageNoKey(indices: int32) -> key: int64, values: dtypes",
    "stateful",
    STAGED,
    SharedAs("Map"),
    NotDifferentiable(),
)
define("OrderedMapClear()", "stateful", AREA, ORDERED_MAP, NotDifferentiable())
define(
    "OrderedMapPeek(key: int64, indices: int32) -> values: dtypes",
    "stateful",
    STAGED,
    ORDERED_MAP,
    NotDifferentiable(),
)
define(
    "OrderedMapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
    ORDERED_MAP,
    NotDifferentiable(),
)
define(
    "OrderedMapUnstage(key: int64, indices: int32) -> values: dtypes",
    "stateful",
    STAGED,
    ORDERED_MAP,
    NotDifferentiable(),
)
define(
    "OrderedMapUnstageNoKey(indices: int32) -> key: int64, values: dtypes",
    "stateful",
    STAGED,
    ORDERED_MAP,
    NotDifferentiable(),
)
define("Stage(values: dtypes)", "stateful", STAGED, SharedAs("Stage"), NotDifferentiable())
define("StageClear()", "stateful", AREA, SharedAs("Stage"), NotDifferentiable())
define(
    "StagePeek(index: int32) -> values: dtypes", "stateful", STAGED, SharedAs("Stage"), NotDifferentiable()
)
define("Unstage() -> values: dtypes", "stateful", STAGED, SharedAs("Stage"), NotDifferentiable())
