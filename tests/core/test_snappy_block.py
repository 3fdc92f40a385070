"""Snappy blocks, read in Python: what a compressor wrote, and what nobody could have written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.files.snappy_block import decompress_block

LIMIT = 1 << 20


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=40), st.integers(1, 400)), max_size=8))
def test_a_block_holds_what_was_compressed(parts: list[tuple[bytes, int]]) -> None:
    cramjam = pytest.importorskip("cramjam", reason="cramjam, the extra snappy, is not installed")
    data = b"".join(part * times for part, times in parts)
    assert decompress_block(bytes(cramjam.snappy.compress_raw(data)), LIMIT) == data


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_keep_their_word(data: bytes) -> None:
    try:
        found = decompress_block(data, LIMIT)
    except ValueError:
        return
    assert len(found) <= LIMIT


@pytest.mark.parametrize(
    ("elements", "content"),
    [
        (b"\x04ab\x0e\x02\x00", b"abababab"[:6]),  # a copy that overlaps itself, two bytes of offset
        (b"\x04ab\x0f\x02\x00\x00\x00", b"ababab"),  # four bytes of offset
        (b"\x04ab\x01\x02", b"ababab"),  # the short form
        (b"\xf0\x02abc", b"abc"),  # a literal with its length in a byte of its own
    ],
)
def test_each_kind_of_element(elements: bytes, content: bytes) -> None:
    assert decompress_block(bytes([len(content)]) + elements, LIMIT) == content


@pytest.mark.parametrize(
    "block",
    [b"", b"\xff\xff\xff\xff\xff", b"\x02\x04a", b"\x06\x04ab\x01", b"\x06\x04ab\x01\x03", b"\x05\x04ab"],
)
def test_damage(block: bytes) -> None:
    with pytest.raises(ValueError, match=r"length|ends within|copy from|does not hold"):
        decompress_block(block, LIMIT)


def test_the_limit() -> None:
    with pytest.raises(ValueError, match="6 bytes when it is written out"):
        decompress_block(b"\x06\x04ab\x01\x02", 5)
