"""Lookup tables."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        FakeQueue HashTable HashTableV2 InitializeTable InitializeTableV2 LookupTableExport
        LookupTableExportV2 LookupTableFind LookupTableFindV2 LookupTableImport LookupTableImportV2
        LookupTableInsert LookupTableInsertV2 LookupTableRemoveV2 LookupTableSize LookupTableSizeV2
        MutableDenseHashTable MutableDenseHashTableV2 MutableHashTable MutableHashTableOfTensors
        MutableHashTableOfTensorsV2 MutableHashTableV2
    """,
}
