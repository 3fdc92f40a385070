"""Lookup tables, named or not."""

from __future__ import annotations

from typing import Final

# Lookup tables.

#: {why they have no record: ops}


# Lookup tables without a name.

#: {why they have no record: ops}

EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        FakeQueue HashTable HashTableV2 InitializeTable InitializeTableV2 LookupTableExport
        LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2
        LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2
        MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
        MutableHashTableOfTensorsV2 MutableHashTableV2
    """,
    "their value is a table: tests/kernels/test_anonymous_tables.py": """
        AnonymousHashTable AnonymousMutableDenseHashTable AnonymousMutableHashTable
        AnonymousMutableHashTableOfTensors
    """,
}
