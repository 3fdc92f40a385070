"""Iterators whose elements go to several devices in turns."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they take or give objects, not tensors: tests/resources/data": """
        AnonymousMultiDeviceIterator AnonymousMultiDeviceIteratorV3 DeleteMultiDeviceIterator
        MultiDeviceIterator MultiDeviceIteratorFromStringHandle MultiDeviceIteratorGetNextFromShard
        MultiDeviceIteratorInit MultiDeviceIteratorToStringHandle
    """,
}
