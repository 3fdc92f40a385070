"""Iterators over datasets."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they take or give objects, not tensors: tests/resources/data, tests/conformance": """
        AnonymousIterator AnonymousIteratorV2 DatasetToSingleElement DeleteIterator
        GetElementAtIndex
        Iterator IteratorFromStringHandle IteratorFromStringHandleV2 IteratorGetNext
        IteratorGetNextAsOptional IteratorGetNextSync IteratorToStringHandle IteratorV2 MakeIterator
        MapDefun OneShotIterator ReduceDataset
    """,
}
