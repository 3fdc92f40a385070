"""East Asian encodings with any bytes are decoded as TensorFlow 1.15 decodes them, which has ICU do it."""

from __future__ import annotations

import json
from typing import Any, Final

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


@pytest.mark.parametrize(
    ("encoding", "data", "code"),
    [("Big5", "fa40", 0xE000), ("Big5", "c6a1", 0xF6B1), ("GBK", "fefe", 0xE4C5), ("EUC-KR", "fea1", 0xE05E)],
)
def test_characters_of_users_are_private(encoding: str, data: str, code: int) -> None:
    found = decoder(encoding.encode())([bytes.fromhex(data)])
    assert (found.codes.tolist(), found.widths.tolist()) == ([code], [2])
