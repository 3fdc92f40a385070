"""Images in files, decoded and encoded."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "values of strings, told by recorded ones: tests/kernels, tests/conformance": """
        DecodeBmp DecodeGif DecodeJpeg DecodePng EncodeJpeg EncodePng
    """,
}
