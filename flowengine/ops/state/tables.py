"""Lookup tables, named or not."""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import UNKNOWN_SHAPE
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Starts, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import VECTOR, scalars, two_strings

# Lookup tables.

#: The handle is of a table.
USES_TABLE: Final = Uses("table_handle")

#: Of a node that makes a table.
TABLE: Final = (
    "container, shared_name: string = ''; use_node_name_sharing: bool = false; key_dtype, value_dtype: type"
)
#: Ops that make tables of a scalar for a scalar.
_SCALAR_TABLES: Final = frozenset({"HashTable", "HashTableV2", "MutableHashTable", "MutableHashTableV2"})

define(
    "FakeQueue(resource: resource) -> handle: Ref(string)",
    "stateful",
    Uses("resource"),
    NotDifferentiable(),
    shape=two_strings,
)
define("HashTable() -> table_handle: Ref(string)", "stateful", TABLE, NotDifferentiable(), shape=two_strings)
define(
    "MutableDenseHashTable(empty_key: key_dtype) -> table_handle: Ref(string)",
    "stateful",
    TABLE,
    "value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "MutableHashTable() -> table_handle: Ref(string)",
    "stateful",
    TABLE,
    NotDifferentiable(),
    shape=two_strings,
)
define(
    "MutableHashTableOfTensors() -> table_handle: Ref(string)",
    "stateful",
    TABLE,
    "value_shape: shape = []",
    NotDifferentiable(),
    shape=two_strings,
)
define("HashTableV2() -> table_handle: resource", "stateful", TABLE, NotDifferentiable(), shape=scalars)
define(
    "MutableDenseHashTableV2(empty_key, deleted_key: key_dtype) -> table_handle: resource",
    "stateful",
    TABLE,
    "value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "MutableHashTableV2() -> table_handle: resource", "stateful", TABLE, NotDifferentiable(), shape=scalars
)
define(
    "MutableHashTableOfTensorsV2() -> table_handle: resource",
    "stateful",
    TABLE,
    "value_shape: shape = []",
    NotDifferentiable(),
    shape=scalars,
)
define("LookupTableSize(table_handle: Ref(string)) -> size: int64", NotDifferentiable(), shape=scalars)
define(
    "LookupTableSizeV2(table_handle: resource) -> size: int64",
    "stateful",
    USES_TABLE,
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "LookupTableExport(table_handle: Ref(string)) -> keys: Tkeys, values: Tvalues",
    "Tkeys, Tvalues: type",
    NotDifferentiable(),
)
@define(
    "LookupTableExportV2(table_handle: resource) -> keys: Tkeys, values: Tvalues",
    "stateful; Tkeys, Tvalues: type",
    USES_TABLE,
    NotDifferentiable(),
)
def export(c: ShapeContext) -> Shapes:
    """Keys, and a value for each, of a table of scalars or of vectors."""
    source = c.handle_source(0)
    if source is None or source.op.startswith("Mutable") or "HashTable" not in source.op:
        return [UNKNOWN_SHAPE, UNKNOWN_SHAPE]
    return [VECTOR, VECTOR]


@define(
    "LookupTableFind(table_handle: Ref(string), keys: Tin, default_value: Tout) -> values: Tout",
    "Tin, Tout: type",
    NotDifferentiable(),
)
@define(
    "LookupTableFindV2(table_handle: resource, keys: Tin, default_value: Tout) -> values: Tout",
    "stateful; Tin, Tout: type",
    USES_TABLE,
    NotDifferentiable(),
)
def find(c: ShapeContext) -> Shapes:
    """keys -> a value for each, where the handle leads to a table of scalars"""
    source = c.handle_source(0)
    if source is None or source.op not in _SCALAR_TABLES:
        return [UNKNOWN_SHAPE]
    return [c.input(1)]


define(
    "InitializeTable(table_handle: Ref(string), keys: Tkey, values: Tval)",
    "Tkey, Tval: type",
    Starts("table_handle"),
    NotDifferentiable(),
)
define(
    "InitializeTableV2(table_handle: resource, keys: Tkey, values: Tval)",
    "stateful; Tkey, Tval: type",
    USES_TABLE,
    Starts("table_handle"),
    NotDifferentiable(),
)
define(
    "LookupTableImport(table_handle: Ref(string), keys: Tin, values: Tout)",
    "Tin, Tout: type",
    NotDifferentiable(),
)
define(
    "LookupTableImportV2, LookupTableInsertV2(table_handle: resource, keys: Tin, values: Tout)",
    "stateful; Tin, Tout: type",
    USES_TABLE,
    NotDifferentiable(),
)
define(
    "LookupTableInsert(table_handle: Ref(string), keys: Tin, values: Tout)",
    "Tin, Tout: type",
    NotDifferentiable(),
)
define(
    "LookupTableRemoveV2(table_handle: resource, keys: Tin)",
    "stateful; Tin: type",
    USES_TABLE,
    NotDifferentiable(),
)


# Lookup tables without a name, one for each run of the node.

define(
    "AnonymousHashTable, AnonymousMutableHashTable() -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousMutableHashTableOfTensors() -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type; value_shape: shape = []",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "AnonymousMutableDenseHashTable(empty_key, deleted_key: key_dtype) -> table_handle: resource",
    "stateful; key_dtype, value_dtype: type",
    "value_shape: shape = []; initial_num_buckets: int = 131072; max_load_factor: float = 0.8",
    NotDifferentiable(),
    shape=scalars,
)
