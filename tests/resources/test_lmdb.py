"""LMDB files written here page by page: all pairs come back in order, and damage is told with its place."""

from __future__ import annotations

import contextlib
import io
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import DataLossError, UnimplementedError
from flowengine.resources.lmdb import lmdb_records

SIZE = 512


def page(number: int, flags: int, nodes: list[bytes]) -> bytes:
    places, body, top = [], b"", SIZE
    for node in nodes:
        padded = node + b"\0" * (len(node) % 2)
        body, top = padded + body, top - len(padded)
        places.append(top)
    lower = 16 + 2 * len(nodes)
    head = struct.pack("<QHHHH", number, 0, flags, lower, top) + struct.pack(f"<{len(places)}H", *places)
    return head + b"\0" * (top - lower) + body


def meta(number: int, root: int, last: int, transaction: int) -> bytes:
    tree = struct.pack("<IHHQQQQQ", SIZE, 0, 1, 0, 0, 0, 0, root)
    fields = struct.pack("<IIQQ", 0xBEEFC0DE, 1, 0, 0) + tree + tree + struct.pack("<QQ", last, transaction)
    return (struct.pack("<QHHHH", number, 0, 8, 0, 0) + fields).ljust(SIZE, b"\0")


def node(key: bytes, value: bytes, flags: int = 0, size: int | None = None) -> bytes:
    count = len(value) if size is None else size
    return struct.pack("<HHHH", count & 0xFFFF, count >> 16, flags, len(key)) + key + value


def branch(key: bytes, child: int) -> bytes:
    return struct.pack("<HHHH", child & 0xFFFF, child >> 16 & 0xFFFF, child >> 32, len(key)) + key


def written(pairs: list[tuple[bytes, bytes]]) -> bytes:
    """An environment with two pairs a leaf, and values of more than 100 bytes on pages of their own."""
    pages: list[bytes] = []
    leaves: list[tuple[bytes, int]] = []
    for at in range(0, len(pairs), 2):
        nodes = []
        for key, value in pairs[at : at + 2]:
            if len(value) <= 100:
                nodes.append(node(key, value))
                continue
            count = -(-(len(value) + 16) // SIZE)
            number = 2 + len(pages)
            large = (struct.pack("<QHHI", number, 0, 4, count) + value).ljust(count * SIZE, b"\0")
            pages += [large[i * SIZE : (i + 1) * SIZE] for i in range(count)]
            nodes.append(node(key, struct.pack("<Q", number), 1, len(value)))
        leaves.append((pairs[at][0], 2 + len(pages)))
        pages.append(page(leaves[-1][1], 2, nodes))
    root = leaves[0][1] if len(leaves) == 1 else 2 + len(pages)
    if len(leaves) > 1:
        pages.append(
            page(root, 1, [branch(key if i else b"", child) for i, (key, child) in enumerate(leaves)])
        )
    last = 1 + len(pages)
    return b"".join([meta(0, 2**64 - 1, 1, 1), meta(1, root if pairs else 2**64 - 1, last, 2), *pages])


def read(data: bytes) -> list[tuple[bytes, bytes]]:
    return [record for block in lmdb_records(io.BytesIO(data), b"f") for record in block]


PAIRS = st.dictionaries(
    st.binary(min_size=1, max_size=20),
    st.one_of(st.binary(max_size=60), st.binary(min_size=101, max_size=1500)),
    max_size=12,
).map(lambda found: sorted(found.items()))


@given(PAIRS)
def test_pairs_come_back_in_order(pairs: list[tuple[bytes, bytes]]) -> None:
    assert read(written(pairs)) == pairs


@given(PAIRS, st.data())
def test_damage_is_an_error_or_harmless(pairs: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    bad = bytearray(written(pairs))
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(bad)))
    with contextlib.suppress(DataLossError, UnimplementedError):
        read(bytes(bad[:cut]))


def test_damage_names_file_and_offset() -> None:
    good = written([(b"a", b"1"), (b"b", b"2")])
    with pytest.raises(DataLossError, match=r"f, page at offset 0: .* no LMDB file"):
        read(b"nothing of the kind")
    with pytest.raises(DataLossError, match=f"f, page at offset {2 * SIZE}: 100 of {SIZE} bytes"):
        read(good[: 2 * SIZE + 100])
    circle = good[: 2 * SIZE] + page(2, 1, [branch(b"", 2)])
    with pytest.raises(DataLossError, match="leads in circles"):
        read(circle)


def test_what_is_not_read() -> None:
    several = written([(b"a", b"1")])[: 2 * SIZE] + page(2, 2, [node(b"a", b"x", 4)])
    with pytest.raises(UnimplementedError, match="several values"):
        read(several)
