"""Datasets as graphs, and where iterators stand."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they take or give objects, not tensors: tests/resources/data": """
        DatasetFromGraph DatasetToGraph DatasetToGraphV2 DeserializeIterator SerializeIterator
    """,
}
