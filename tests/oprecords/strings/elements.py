"""Strings element by element: length, parts, case, base64, numbers."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        DecodeBase64 EncodeBase64 StringLength StringLower StringStrip StringToNumber StringUpper
        Substr
    """,
}
