"""East Asian encodings with any bytes are decoded as TensorFlow 1.15 decodes them, which has ICU do it."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import flowengine as fe
from flowengine.kernels.strings.encodings import decoder
from tests.kernels.record_east_asian import ENCODINGS, RECORDED

CASES: Final[dict[str, list[Any]]] = json.loads(RECORDED.read_text())


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_drawn_bytes_have_tensorflows_characters(encoding: str) -> None:
    rows = CASES[encoding]
    graph = fe.Graph()
    texts = graph.constant([bytes.fromhex(row[0]) for row in rows], "string")
    found = graph.ops.UnicodeDecodeWithOffsets(
        texts,
        input_encoding=encoding,
        errors="replace",
        replacement_char=0xFFFD,
        replace_control_characters=False,
    )
    with fe.blocking.Session(graph) as session:
        splits, codes, offsets = (each.tolist() for each in session.run(list(found)))
    differing = {
        row[0]
        for row, begin, end in zip(rows, splits[:-1], splits[1:], strict=True)
        if row[1:] != [codes[begin:end], offsets[begin:end]]
    }
    assert not differing


@given(data=st.binary(max_size=20), encoding=st.sampled_from(ENCODINGS))
def test_every_byte_belongs_to_one_character(data: bytes, encoding: str) -> None:
    found = decoder(encoding.encode())([data])
    assert (found.widths > 0).all()
    assert found.widths.sum() <= len(data)
    if encoding != "ISO-2022-JP":  # its shifts are no characters
        assert found.widths.sum() == len(data)


#: The beginning of a digest of what TensorFlow 1.15 makes of each byte and of each pair of bytes that begins
#: with one of 0x80 and more: code points and offsets. A table of all would be as long as the tests.
DIGESTS: Final = {
    "Shift_JIS": "ef2204ea43fb6255",
    "EUC-JP": "dcfdb59203752f89",
    "EUC-KR": "36b494e5ff6c2f71",
    "GBK": "ae3dde3dd09b0bde",
    "GB18030": "69fb5fc88bb5bb6d",
    "Big5": "a94829a0fa1b5812",
    "GB2312": "28614c6d5f715355",
}


@pytest.mark.parametrize("encoding", DIGESTS)
def test_all_bytes_and_pairs_have_tensorflows_characters(encoding: str) -> None:
    texts = [bytes([byte]) for byte in range(256)]
    texts += [bytes([first, second]) for first in range(0x80, 0x100) for second in range(256)]
    found = decoder(encoding.encode())(texts)
    ends = np.cumsum(found.widths)
    digest = hashlib.sha256()
    for begin, end in pairwise(found.splits.tolist()):
        offsets = [0, *(ends[begin : end - 1] - (ends[begin - 1] if begin else 0)).tolist()]
        digest.update(repr((found.codes[begin:end].tolist(), offsets)).encode())
    assert digest.hexdigest().startswith(DIGESTS[encoding])


@pytest.mark.parametrize(
    ("encoding", "data", "code"),
    [
        ("Big5", "fa40", 0xE000),
        ("Big5", "c6a1", 0xF6B1),
        ("GBK", "fefe", 0xE4C5),
        ("GBK", "a995", 0xE7F3),
        ("EUC-KR", "fea1", 0xE05E),
        ("GB2312", "a2a1", 0xE000),
        ("GB2312", "a9fe", 0xE0A3),
        ("GB2312", "d7fe", 0xE2DC),
    ],
)
def test_characters_of_users_are_private(encoding: str, data: str, code: int) -> None:
    found = decoder(encoding.encode())([bytes.fromhex(data)])
    assert (found.codes.tolist(), found.widths.tolist()) == ([code], [2])


@pytest.mark.parametrize(
    ("encoding", "data", "character"),
    [
        ("EUC-JP", "f9a1", "纊"),
        ("EUC-JP", "fcfe", "\uff02"),
        ("EUC-JP", "8ee1", "£"),
        ("EUC-JP", "a1c1", "\uff5e"),
        ("EUC-JP", "8ff3b4", "\u2169"),
        ("EUC-JP", "8fa2b7", "\uff5e"),
        ("EUC-KR", "a4d4", "\u3164"),
        ("GB18030", "a8bc", "\u1e3f"),
        ("GB2312", "fefe", "▼"),
    ],
)
def test_characters_of_vendors(encoding: str, data: str, character: str) -> None:
    found = decoder(encoding.encode())([bytes.fromhex(data)])
    assert (found.codes.tolist(), found.widths.tolist()) == ([ord(character)], [len(data) // 2])


@pytest.mark.parametrize(
    ("encoding", "data", "codes"),
    [
        ("EUC-JP", "8fff5c", [0xFFFD, 0x5C]),
        ("EUC-JP", "8f8041", [0xFFFD, 0x80, 0x41]),
        ("EUC-JP", "adbf", [0xFFFD]),
        ("ISO-2022-JP", "1b28ffb0", [0xFFFD, 0x28, 0xFFFD, 0xFFFD]),
        ("ISO-2022-JP", "1bf9a17e1b", [0xFFFD, 0xFFFD, 0xFFFD, 0x7E, 0xFFFD]),
        ("ISO-2022-JP", "1b24423021301b", [0x4E9C, 0xFFFD, 0xFFFD]),
    ],
)
def test_no_text_is_lost_behind_malformed_bytes(encoding: str, data: str, codes: list[int]) -> None:
    assert decoder(encoding.encode())([bytes.fromhex(data)]).codes.tolist() == codes
