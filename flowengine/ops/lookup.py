"""Lookup tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE, TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalars, two_strings

#: Ops that make tables of a scalar for a scalar.
_SCALAR_TABLES: Final = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})
define(
    "HashTable",
    outputs=["table_handle: Ref(string)"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "MutableDenseHashTable",
    inputs=["empty_key: key_dtype"],
    outputs=["table_handle: Ref(string)"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "MutableHashTable",
    outputs=["table_handle: Ref(string)"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "MutableHashTableOfTensors",
    outputs=["table_handle: Ref(string)"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
    ],
    is_stateful=True,
    shape=two_strings,
)
define(
    "HashTableV2",
    outputs=["table_handle: resource"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MutableDenseHashTableV2",
    inputs=["empty_key: key_dtype", "deleted_key: key_dtype"],
    outputs=["table_handle: resource"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
        "initial_num_buckets: int = 131072",
        "max_load_factor: float = 0.8",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MutableHashTableV2",
    outputs=["table_handle: resource"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
    ],
    is_stateful=True,
    shape=scalars,
)
define(
    "MutableHashTableOfTensorsV2",
    outputs=["table_handle: resource"],
    attrs=[
        'container: string = ""',
        'shared_name: string = ""',
        "use_node_name_sharing: bool = false",
        "key_dtype: type",
        "value_dtype: type",
        "value_shape: shape = []",
    ],
    is_stateful=True,
    shape=scalars,
)
define("LookupTableSize", inputs=["table_handle: Ref(string)"], outputs=["size: int64"], shape=scalars)
define(
    "LookupTableSizeV2",
    inputs=["table_handle: resource"],
    outputs=["size: int64"],
    is_stateful=True,
    shape=scalars,
)


def export(c: ShapeContext) -> Sequence[TensorShape]:
    """Keys, and a value for each, of a table of scalars or of vectors."""
    source = c.handle_source(0)
    if source is None or source.op.startswith("Mutable") or "HashTable" not in source.op:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    return [VECTOR, VECTOR]


define(
    "LookupTableExport",
    inputs=["table_handle: Ref(string)"],
    outputs=["keys: Tkeys", "values: Tvalues"],
    attrs=["Tkeys: type", "Tvalues: type"],
    shape=export,
)
define(
    "LookupTableExportV2",
    inputs=["table_handle: resource"],
    outputs=["keys: Tkeys", "values: Tvalues"],
    attrs=["Tkeys: type", "Tvalues: type"],
    is_stateful=True,
    shape=export,
)


def find(c: ShapeContext) -> Sequence[TensorShape]:
    """keys -> a value for each, where the handle leads to a table of scalars"""
    source = c.handle_source(0)
    if source is None or source.op not in _SCALAR_TABLES:
        return [UNKNOWN_SHAPE]
    return [c.input(1)]


define(
    "LookupTableFind",
    inputs=["table_handle: Ref(string)", "keys: Tin", "default_value: Tout"],
    outputs=["values: Tout"],
    attrs=["Tin: type", "Tout: type"],
    shape=find,
)
define(
    "LookupTableFindV2",
    inputs=["table_handle: resource", "keys: Tin", "default_value: Tout"],
    outputs=["values: Tout"],
    attrs=["Tin: type", "Tout: type"],
    is_stateful=True,
    shape=find,
)
define(
    "InitializeTable",
    inputs=["table_handle: Ref(string)", "keys: Tkey", "values: Tval"],
    attrs=["Tkey: type", "Tval: type"],
)
define(
    "InitializeTableFromTextFile",
    inputs=["table_handle: Ref(string)", "filename: string"],
    attrs=[
        "key_index: int >= -2",
        "value_index: int >= -2",
        "vocab_size: int >= -1 = -1",
        'delimiter: string = "\\t"',
    ],
)
define(
    "InitializeTableFromTextFileV2",
    inputs=["table_handle: resource", "filename: string"],
    attrs=[
        "key_index: int >= -2",
        "value_index: int >= -2",
        "vocab_size: int >= -1 = -1",
        'delimiter: string = "\\t"',
    ],
    is_stateful=True,
)
define(
    "InitializeTableV2",
    inputs=["table_handle: resource", "keys: Tkey", "values: Tval"],
    attrs=["Tkey: type", "Tval: type"],
    is_stateful=True,
)
define(
    "LookupTableImport",
    inputs=["table_handle: Ref(string)", "keys: Tin", "values: Tout"],
    attrs=["Tin: type", "Tout: type"],
)
define(
    "LookupTableImportV2",
    inputs=["table_handle: resource", "keys: Tin", "values: Tout"],
    attrs=["Tin: type", "Tout: type"],
    is_stateful=True,
)
define(
    "LookupTableInsert",
    inputs=["table_handle: Ref(string)", "keys: Tin", "values: Tout"],
    attrs=["Tin: type", "Tout: type"],
)
define(
    "LookupTableInsertV2",
    inputs=["table_handle: resource", "keys: Tin", "values: Tout"],
    attrs=["Tin: type", "Tout: type"],
    is_stateful=True,
)
define(
    "LookupTableRemoveV2",
    inputs=["table_handle: resource", "keys: Tin"],
    attrs=["Tin: type"],
    is_stateful=True,
)
