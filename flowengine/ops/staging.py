"""Staging areas: buffers between steps."""

from __future__ import annotations

from flowengine.ops.registry import define
from flowengine.ops.shape_functions import scalars

define(
    "MapIncompleteSize",
    outputs=["size: int32"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MapSize",
    outputs=["size: int32"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "OrderedMapIncompleteSize",
    outputs=["size: int32"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "OrderedMapSize",
    outputs=["size: int32"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "StageSize",
    outputs=["size: int32"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MapClear",
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "MapPeek",
    inputs=["key: int64", "indices: int32"],
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "MapStage",
    inputs=["key: int64", "indices: int32", "values: fake_dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "fake_dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "MapUnstage",
    inputs=["key: int64", "indices: int32"],
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "MapUnstageNoKey",
    inputs=["indices: int32"],
    outputs=["key: int64", "values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "OrderedMapClear",
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "OrderedMapPeek",
    inputs=["key: int64", "indices: int32"],
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "OrderedMapStage",
    inputs=["key: int64", "indices: int32", "values: fake_dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        "fake_dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "OrderedMapUnstage",
    inputs=["key: int64", "indices: int32"],
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "OrderedMapUnstageNoKey",
    inputs=["indices: int32"],
    outputs=["key: int64", "values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "Stage",
    inputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "StageClear",
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type)",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "StagePeek",
    inputs=["index: int32"],
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
define(
    "Unstage",
    outputs=["values: dtypes"],
    attrs=[
        "capacity: int >= 0 = 0",
        "memory_limit: int >= 0 = 0",
        "dtypes: list(type) >= 1",
        'container: string = ""',
        'shared_name: string = ""',
    ],
    is_stateful=True,
)
