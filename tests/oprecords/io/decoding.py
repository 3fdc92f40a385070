"""Numbers and tensors out of strings of bytes, and tensors into them."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        DecodeCSV DecodeCompressed DecodeJSONExample DecodePaddedRaw DecodeRaw ParseTensor
        SerializeTensor
    """,
}
