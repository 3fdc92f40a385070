"""LMDB files, read: the pairs of the main database of an environment in the order of their keys.

The file is an array of pages. Two of them say where the tree begins, the newer one counts; branches lead to
leaves, leaves hold keys and values, and a value too large for its leaf has pages of its own. Everything that
a page says is checked before it is followed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, Final

from flowengine.core.errors import DataLossError, UnimplementedError
from flowengine.resources.records import Block, shown

_MAGIC: Final = 0xBEEFC0DE
_VERSION: Final = 1
#: Pages on the way from the root to a leaf: more than any tree has.
_DEPTH_MAX: Final = 32
_NOTHING: Final = 2**64 - 1

_PAGE: Final = struct.Struct("<QHHHH")  # number, padding, flags, lower, upper
_META: Final = struct.Struct("<IIQQ")  # magic, version, address, size of the map
_TREE: Final = struct.Struct("<IHHQQQQQ")  # page size, flags, depth, three counts, entries, root
_NODE: Final = struct.Struct("<HHHH")  # low and high half of the size, flags, size of the key
_NUMBER: Final = struct.Struct("<Q")

_BRANCH: Final = 1
_LEAF: Final = 2
_OVERFLOW: Final = 4
_META_PAGE: Final = 8
_FIXED_LEAF: Final = 0x20
_BIG: Final = 1
_TREE_OR_SEVERAL: Final = 6


def lmdb_records(file: BinaryIO, name: bytes) -> Iterator[Block]:
    """Key and value of each entry, a leaf at a time.

    Raises DataLossError with file and offset for a page that makes no sense, UnimplementedError for
    databases inside of it and for keys with several values.
    """
    return _Environment(file, name).blocks()


class _Environment:
    def __init__(self, file: BinaryIO, name: bytes) -> None:
        self._file = file
        self._name = name
        self._size = 4096
        metas = []
        first = self._meta(0)
        if first is not None:
            self._size = first[0]
            metas.append(first)
        second = self._meta(self._size)
        if second is not None:
            metas.append(second)
        if not metas:
            raise self._damaged(0, "it has no valid meta page, so it is no LMDB file")
        self._size, _, self._root, self._last = max(metas, key=lambda meta: meta[1])

    def _damaged(self, offset: int, why: str) -> DataLossError:
        return DataLossError(f"{shown(self._name)}, page at offset {offset}: {why}")

    def _at(self, offset: int, count: int) -> bytes:
        self._file.seek(offset)
        data = self._file.read(count)
        if len(data) < count:
            raise self._damaged(offset, f"{len(data)} of {count} bytes are there")
        return data

    def _meta(self, offset: int) -> tuple[int, int, int, int] | None:
        """Page size, transaction, root and last page, or None where this is no meta page."""
        self._file.seek(offset)
        data = self._file.read(152)
        if len(data) < 152 or not _PAGE.unpack_from(data)[2] & _META_PAGE:
            return None
        magic, version, _, _ = _META.unpack_from(data, 16)
        if magic != _MAGIC:
            return None
        if version != _VERSION:
            raise UnimplementedError(f"{shown(self._name)}: an LMDB file of version {version}")
        size = _TREE.unpack_from(data, 40)[0]
        root = _TREE.unpack_from(data, 88)[7]
        last, transaction = struct.unpack_from("<QQ", data, 136)
        if size < 256 or size > 65536 or size & (size - 1):
            raise self._damaged(offset, f"pages of {size} bytes")
        return size, transaction, root, last

    def blocks(self) -> Iterator[Block]:
        """The leaves from left to right."""
        seen = 0
        ahead = [] if self._root == _NOTHING else [(self._root, 0)]
        while ahead:
            number, depth = ahead.pop()
            seen += 1
            offset = number * self._size
            if number > self._last or seen > self._last + 1 or depth > _DEPTH_MAX:
                raise self._damaged(offset, "the tree leads in circles or out of the file")
            page = self._at(offset, self._size)
            own, _, flags, lower, _ = _PAGE.unpack_from(page)
            if own != number or not 16 <= lower <= self._size or lower % 2:
                raise self._damaged(offset, f"page {number} says that it is page {own}, with {lower} bytes")
            places = struct.unpack_from(f"<{(lower - 16) // 2}H", page, 16)
            nodes = [self._node(page, place, offset) for place in places]
            if flags & _BRANCH:
                children = [low | high << 16 | rest << 32 for low, high, rest, _, _ in nodes]
                ahead += [(child, depth + 1) for child in reversed(children)]
            elif flags & _LEAF and not flags & _FIXED_LEAF:
                yield [self._record(page, node, offset) for node in nodes]
            else:
                raise self._damaged(
                    offset, f"page {number} is neither branch nor leaf, its flags are {flags}"
                )

    def _node(self, page: bytes, place: int, offset: int) -> tuple[int, int, int, int, int]:
        """The four fields of a node, and where its key begins."""
        if place + 8 > len(page):
            raise self._damaged(offset, f"a node at {place} is outside of its page")
        low, high, flags, key = _NODE.unpack_from(page, place)
        if place + 8 + key > len(page):
            raise self._damaged(offset, f"a key of {key} bytes at {place} is outside of its page")
        return low, high, flags, key, place + 8

    def _record(self, page: bytes, node: tuple[int, int, int, int, int], offset: int) -> tuple[bytes, bytes]:
        low, high, flags, key_size, begin = node
        if flags & _TREE_OR_SEVERAL:
            raise UnimplementedError(
                f"{shown(self._name)}: a database within the main one, or a key with several values"
            )
        key, size, data = page[begin : begin + key_size], low | high << 16, begin + key_size
        if not flags & _BIG:
            if data + size > len(page):
                raise self._damaged(offset, f"a value of {size} bytes at {data} is outside of its page")
            return key, page[data : data + size]
        if data + 8 > len(page):
            raise self._damaged(offset, f"the place of a value at {data} is outside of its page")
        (number,) = _NUMBER.unpack_from(page, data)
        place = number * self._size
        if number > self._last or place + 16 + size > (self._last + 1) * self._size:
            raise self._damaged(place, f"a value of {size} bytes is outside of the file")
        if not _PAGE.unpack(self._at(place, 16))[2] & _OVERFLOW:
            raise self._damaged(place, "the page of a large value is none")
        return key, self._at(place + 16, size)
