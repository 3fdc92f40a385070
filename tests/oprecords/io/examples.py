"""Serialised examples parsed into tensors."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        ParseExample ParseSingleExample ParseSingleSequenceExample
    """,
}
