"""Staging areas and maps, named by attributes."""

from __future__ import annotations

from typing import Final

from flowengine.ir.traits import SharedAs
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

define("MapIncompleteSize() -> size: int32", "stateful", AREA, SharedAs("Map"), shape=scalars)
define("MapSize() -> size: int32", "stateful", AREA, SharedAs("Map"), shape=scalars)
define("OrderedMapIncompleteSize() -> size: int32", "stateful", AREA, ORDERED_MAP, shape=scalars)
define("OrderedMapSize() -> size: int32", "stateful", AREA, ORDERED_MAP, shape=scalars)
define("StageSize() -> size: int32", "stateful", AREA, SharedAs("Stage"), shape=scalars)
define("MapClear()", "stateful", AREA, SharedAs("Map"))
define("MapPeek(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED, SharedAs("Map"))
define(
    "MapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
    SharedAs("Map"),
)
define("MapUnstage(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED, SharedAs("Map"))
define("MapUnstageNoKey(indices: int32) -> key: int64, values: dtypes", "stateful", STAGED, SharedAs("Map"))
define("OrderedMapClear()", "stateful", AREA, ORDERED_MAP)
define("OrderedMapPeek(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED, ORDERED_MAP)
define(
    "OrderedMapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
    ORDERED_MAP,
)
define("OrderedMapUnstage(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED, ORDERED_MAP)
define(
    "OrderedMapUnstageNoKey(indices: int32) -> key: int64, values: dtypes", "stateful", STAGED, ORDERED_MAP
)
define("Stage(values: dtypes)", "stateful", STAGED, SharedAs("Stage"))
define("StageClear()", "stateful", AREA, SharedAs("Stage"))
define("StagePeek(index: int32) -> values: dtypes", "stateful", STAGED, SharedAs("Stage"))
define("Unstage() -> values: dtypes", "stateful", STAGED, SharedAs("Stage"))
