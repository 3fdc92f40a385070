"""Filters in the order, and at the place, that suit a library: kept for those that can never change."""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.library import Library, address
from flowengine.kernels.onednn.objects import Handle
from flowengine.kernels.onednn.program import Program, aligned


def never_changes(array: Array) -> bool:
    """Whether an array's elements lie in a `bytes` object: those of a graph's constants do."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return isinstance(base, bytes)


class Aligned:
    """Constants copied to where a cache line begins, each for as long as the constant lives.

    A graph's constants lie where their file was read to. BLAS takes half as long again for a product of a
    few rows whose every load touches two lines.
    """

    def __init__(self) -> None:
        #: {identity: (the constant, its copy)}
        self._kept: dict[int, tuple[weakref.ref[Any], Array]] = {}

    def find(self, constant: Array) -> Array:
        """The copy of a constant, made on the first call; anything else as it is."""
        key = id(constant)
        entry = self._kept.get(key)
        if entry is not None and entry[0]() is constant:
            return entry[1]
        if not (constant.flags.c_contiguous and never_changes(constant)):
            return constant
        owner, where = aligned(constant.nbytes)
        start = where - address(owner)
        copy: Array = owner[start : start + constant.nbytes].view(constant.dtype).reshape(constant.shape)
        copy[...] = constant
        kept = self._kept
        kept[key] = (weakref.ref(constant, lambda _: kept.pop(key, None)), copy)
        return copy

    def __len__(self) -> int:
        return len(self._kept)


class Packed:
    """Constant filters in a primitive's order, each for as long as the constant lives.

    wanted   that order
    """

    def __init__(self, library: Library, plain: Handle, wanted: Handle, attributes: Handle) -> None:
        self.plain, self.wanted = plain, wanted
        self._size = library.size_of(wanted.value)
        self._program = Program(library)
        self._program.reorder(self._program.outside(plain), self._program.outside(wanted), attributes)
        #: {identity: (the constant, its packed memory's owner and address)}
        self._kept: dict[int, tuple[weakref.ref[Any], Any, int]] = {}

    def find(self, filters: Array) -> int | None:
        """The address of constant filters, packed on the first call; None for any others."""
        if filters.flags.writeable:
            return None
        key = id(filters)
        entry = self._kept.get(key)
        if entry is not None and entry[0]() is filters:
            return entry[2]
        if not (filters.flags.c_contiguous and never_changes(filters)):
            return None
        owner, where = aligned(self._size)
        self._program(address(filters), where)
        kept = self._kept
        self._kept[key] = (weakref.ref(filters, lambda _: kept.pop(key, None)), owner, where)
        return where

    def __len__(self) -> int:
        return len(self._kept)


_every: Final[weakref.WeakSet[Packed]] = weakref.WeakSet()


def shared(library: Library, plain: Handle, wanted: Handle, attributes: Handle) -> Packed:
    """What keeps filters that lie so in this order, for all primitives that want it.

    A convolution alone, the same with what follows it, and one of another batch mostly agree on the order.
    """
    for packed in list(_every):
        if library.equal(packed.plain.value, plain.value) and library.equal(
            packed.wanted.value, wanted.value
        ):
            return packed
    made = Packed(library, plain, wanted, attributes)
    _every.add(made)
    return made
