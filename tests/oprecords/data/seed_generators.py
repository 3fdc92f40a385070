"""Ops that datasets share; they have no records."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they take or give objects, not tensors: tests/resources/data, tests/conformance": """
        AnonymousIteratorV3 AnonymousMemoryCache AnonymousRandomSeedGenerator AnonymousSeedGenerator
        DeleteMemoryCache DeleteRandomSeedGenerator DeleteSeedGenerator DummyIterationCounter
        DummyMemoryCache DummySeedGenerator
    """,
}
