"""CRC-32C against published values and the definition, byte by byte."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.checksums.crc32c import crc32c, is_multiple, mask, unmask


def by_definition(data: bytes, crc: int = 0) -> int:
    register = crc ^ 0xFFFFFFFF
    for byte in data:
        register ^= byte
        for _ in range(8):
            register = (register >> 1) ^ (0x82F63B78 if register & 1 else 0)
    return register ^ 0xFFFFFFFF


@pytest.mark.parametrize(
    ("data", "crc"),
    [
        (b"", 0),
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_published_values(data: bytes, crc: int) -> None:
    assert crc32c(data) == crc


@given(st.binary(max_size=400), st.integers(0, 2**32 - 1))
def test_short_ones_follow_the_definition(data: bytes, before: int) -> None:
    assert crc32c(data, before) == by_definition(data, before)


@pytest.mark.parametrize("size", [4_097, 160_128, 160_129, 518_760, 600_001])
def test_long_ones_follow_the_definition(size: int) -> None:
    data = np.random.default_rng(size).bytes(size)
    assert crc32c(data) == by_definition(data)


@given(st.integers(0, 700_000), st.integers(0, 700_000))
def test_pieces_give_the_checksum_of_the_whole(left: int, right: int) -> None:
    data = np.random.default_rng(left).bytes(left + right)
    assert crc32c(memoryview(data)[left:], crc32c(data[:left])) == crc32c(data)


def test_arrays_of_any_type_are_bytes() -> None:
    array = np.arange(1000, dtype=np.int16).reshape(10, 100)
    assert crc32c(array) == crc32c(array.tobytes())


@given(st.integers(0, 2**32 - 1))
def test_the_mask_can_be_taken_off(crc: int) -> None:
    assert unmask(mask(crc)) == crc
    assert mask(crc) != crc


def _chain(messages: list[bytes]) -> bytearray:
    """Messages with their first four bytes inverted, each followed by its inverted checksum."""
    chain = bytearray()
    for message in messages:
        first = bytes(byte ^ 0xFF for byte in message[:4])
        chain += first + message[4:] + (crc32c(message) ^ 0xFFFFFFFF).to_bytes(4, "little")
    return chain


def _is_multiple(message: bytes | bytearray) -> bool:
    words = np.frombuffer(bytes(-len(message) % 8) + message, np.uint64).copy()
    return is_multiple(words)


@given(st.lists(st.binary(min_size=4, max_size=200), max_size=4), st.data())
def test_a_chain_of_messages_is_a_multiple_unless_it_is_damaged(
    messages: list[bytes], data: st.DataObject
) -> None:
    chain = _chain(messages)
    assert _is_multiple(chain)
    if chain:
        at = data.draw(st.integers(0, 8 * len(chain) - 1))
        chain[at // 8] ^= 1 << at % 8
        assert not _is_multiple(chain)


#: Words up to which a message is not folded, or not by wide steps; and what is folded in several runs.
@pytest.mark.parametrize("words", [5685, 5686, 4 * 5685, 4 * 5685 + 1, 4 * (5685 + 4323) + 1, 150_000])
@pytest.mark.parametrize("odd", [0, 3])
def test_long_chains_are_multiples(words: int, odd: int) -> None:
    drawn = np.random.default_rng(words).bytes(8 * words - 16 - odd)
    middle = len(drawn) // 3
    chain = _chain([drawn[:middle], drawn[middle:]])
    assert _is_multiple(chain)
    for at in (0, 4, middle + 1, len(chain) // 2, len(chain) - 1):
        chain[at] ^= 0x10
        assert not _is_multiple(chain)
        chain[at] ^= 0x10
