"""Staging areas and maps, named by attributes."""

from __future__ import annotations

from typing import Final

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

#: Of a node that brings or takes values.
STAGED: Final = (
    "capacity, memory_limit: int >= 0 = 0; dtypes: list(type) >= 1; container, shared_name: string = ''"
)
#: Of a node that asks an area.
AREA: Final = "capacity, memory_limit: int >= 0 = 0; dtypes: list(type); container, shared_name: string = ''"

define("MapIncompleteSize() -> size: int32", "stateful", AREA, shape=scalars)
define("MapSize() -> size: int32", "stateful", AREA, shape=scalars)
define("OrderedMapIncompleteSize() -> size: int32", "stateful", AREA, shape=scalars)
define("OrderedMapSize() -> size: int32", "stateful", AREA, shape=scalars)
define("StageSize() -> size: int32", "stateful", AREA, shape=scalars)
define("MapClear()", "stateful", AREA)
define("MapPeek(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED)
define(
    "MapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
)
define("MapUnstage(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED)
define("MapUnstageNoKey(indices: int32) -> key: int64, values: dtypes", "stateful", STAGED)
define("OrderedMapClear()", "stateful", AREA)
define("OrderedMapPeek(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED)
define(
    "OrderedMapStage(key: int64, indices: int32, values: fake_dtypes)",
    "stateful; capacity, memory_limit: int >= 0 = 0; dtypes: list(type); fake_dtypes: list(type) >= 1",
    "container, shared_name: string = ''",
)
define("OrderedMapUnstage(key: int64, indices: int32) -> values: dtypes", "stateful", STAGED)
define("OrderedMapUnstageNoKey(indices: int32) -> key: int64, values: dtypes", "stateful", STAGED)
define("Stage(values: dtypes)", "stateful", STAGED)
define("StageClear()", "stateful", AREA)
define("StagePeek(index: int32) -> values: dtypes", "stateful", STAGED)
define("Unstage() -> values: dtypes", "stateful", STAGED)
