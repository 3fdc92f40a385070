"""Filters in the order, and at the place, that suit a library: kept for those that can never change."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core.arrays import Array
from flowengine.kernels.onednn.library import Library, address
from flowengine.kernels.onednn.objects import Handle
from flowengine.kernels.onednn.programs.program import PrimitiveProgram, aligned

#: Calls after which filters of a variable are looked at for the first time, and at most.
_PATIENCE: Final = 2
_PATIENCE_MAX: Final = 4096
#: Elements that are looked at.
_SAMPLE: Final = 32


def never_changes(array: Array) -> bool:
    """Whether an array's elements lie in a `bytes` object: those of a graph's constants do."""
    base: Any = array
    while isinstance(base, np.ndarray):
        if base.flags.writeable:
            return False
        base = base.base
    return isinstance(base, bytes)


class AlignedConstants:
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


#: Has a program bring filters from one of its memories to another.
Filling: TypeAlias = Callable[[PrimitiveProgram, int, int], None]


class PackedConstants:
    """Constant filters as primitives take them, each for as long as the constant lives.

    plain    how they lie
    wanted   the order of the primitive's
    program  brings them from an address, the first that it is given, to where the other is
    size     bytes of what it brings there
    """

    def __init__(self, plain: Handle, wanted: Handle, program: PrimitiveProgram, size: int) -> None:
        self.plain, self.wanted = plain, wanted
        self._size = size
        self._program = program
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
        owner, where = self.pack(filters)
        kept = self._kept
        self._kept[key] = (weakref.ref(filters, lambda _: kept.pop(key, None)), owner, where)
        return where

    def pack(self, filters: Array) -> tuple[Any, int]:
        """(what owns the memory of C-contiguous filters in order, its address)."""
        owner, where = aligned(self._size)
        self._program(address(filters), where)
        return owner, where

    def __len__(self) -> int:
        return len(self._kept)


class PackedVariable:
    """The filters of one node, which a variable holds, packed when they seem to stay as they are.

    A reference to a variable's value keeps it unchanged, because a write makes a copy first. So filters of
    which a few elements were the same as some calls before are referred to from then on, and packed once,
    until the variable has another value. The next ones have to stay twice as long: a variable that is trained
    pays for a copy once in some thousand steps, if ever.
    """

    __slots__ = ("_held", "_left", "_sample", "_wait")

    def __init__(self) -> None:
        #: (the filters, what packs them, the owner of their packed memory, its address)
        self._held: tuple[Array, PackedConstants, Any, int] | None = None
        self._wait = self._left = _PATIENCE
        self._sample = b""

    @property
    def is_restless(self) -> bool:
        """Whether the filters have been seen to change."""
        return self._wait > 2 * _PATIENCE

    def held(self, filters: Array, packed: PackedConstants) -> tuple[Any, int] | None:
        """(what owns the memory of filters that are kept in order, its address)."""
        held = self._held
        return held[2:] if held is not None and held[0] is filters and held[1] is packed else None

    def find(self, filters: Array, packed: PackedConstants) -> int | None:
        """The address of C-contiguous filters in order; None while they are not kept."""
        held = self._held
        if held is not None:
            if held[0] is filters and held[1] is packed:
                return held[3]
            self._held = None
            self._be_patient()
        self._left -= 1
        if self._left > 0:
            return None
        sample = filters.reshape(-1)[:: max(1, filters.size // _SAMPLE)].tobytes()
        if sample != self._sample:
            self._sample = sample
            self._be_patient()
            return None
        self._held = held = (filters, packed, *packed.pack(filters))
        return held[3]

    def _be_patient(self) -> None:
        self._left = self._wait = min(2 * self._wait, _PATIENCE_MAX)


_every: Final[weakref.WeakSet[PackedConstants]] = weakref.WeakSet()


def reordering(attributes: Handle) -> Filling:
    """Filters are only brought into order."""
    return lambda program, given, made: program.reorder(given, made, attributes)


def shared(
    library: Library, plain: Handle, wanted: Handle, fill: Filling, size: int | None = None
) -> PackedConstants:
    """Return the `PackedConstants` that holds filters of this layout in this order, for all primitives.

    A convolution alone, the same with what follows it, and one of another batch mostly agree on the order.

    fill   has a program bring them from one memory to the other
    size   bytes of what it brings there; those of `wanted`, if nothing is said
    """
    for packed in list(_every):
        if library.equal(packed.plain.value, plain.value) and library.equal(
            packed.wanted.value, wanted.value
        ):
            return packed
    program = PrimitiveProgram(library)
    fill(program, program.outside(plain), program.outside(wanted))
    made = PackedConstants(plain, wanted, program, library.size_of(wanted.value) if size is None else size)
    _every.add(made)
    return made
