"""Philox 4x32-10, the counter-based generator of TensorFlow's random ops, and its distributions.

A generator is a key (the first seed) and a 128-bit counter whose upper half starts as the second seed.
Every count gives four 32-bit numbers, so any part of a sequence is computed alone and at once: that is
what makes these vectorised versions give TensorFlow's own numbers, bit for bit (normal float64 numbers up
to the last bit of the machine's logarithm, sine and cosine).

Reference: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

import functools
import secrets
import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import numpy as np

from flowengine.core import dtypes
from flowengine.core.arrays import Array, in_host_memory, is_numpy
from flowengine.core.dtypes import DType
from flowengine.kernels.common import float_functions
from flowengine.kernels.common.parallel import slices, spread


def _number(value: int, is_near: bool = True) -> Any:
    """An operand of 64 bits: for NumPy an array of rank 0, which it need not convert at each call."""
    number = np.uint64(value)
    return number.reshape(()) if is_near else number


_MULTIPLIERS: Final = (0xD2511F53, 0xCD9E8D57)
_WEYL: Final = (0x9E3779B9, 0xBB67AE85)
_LOW: Final = np.uint64(0xFFFFFFFF)
_SHIFT: Final = np.uint64(32)
_MASK64: Final = (1 << 64) - 1
_MASK128: Final = (1 << 128) - 1

#: Counters that are taken together: what the ten rounds pass between them stays in a core's cache.
_PIECE: Final = 1 << 13

#: Counts that each requested number reserves, whatever it needs.
RESERVED: Final = 256
#: Below this a uniform number is not given to the logarithm.
_EPSILON: Final = 1.0e-7
#: What a truncated normal number stays within.
_TRUNCATION: Final = 2.0
#: Counters of a group of truncated normal numbers if the numbers are not read while they are drawn.
_TRIES_UNSEEN: Final = 8
#: (xp, key, counter, count, dtype) -> `count` numbers: `uniform`, `normal` or `truncated_normal`.
Distribution: TypeAlias = Callable[[Any, int, int, int, DType], Any]


def blocks(xp: Any, key: int, counters: Array, high: Array) -> Any:
    """The four numbers of each counter: uint64 low and high halves (n,) to uint32 (n, 4)."""
    is_near = in_host_memory(counters)
    multipliers, low, shift, rounds = _operands(key, is_near)
    c0, c1 = counters & low, counters >> shift
    c2, c3 = high & low, high >> shift
    product0, product1 = xp.empty_like(c0), xp.empty_like(c0)
    # In place, without a Python number: for a few counters the calls are what it costs.
    for k0, k1 in rounds:
        xp.multiply(c0, multipliers[0], product0)
        xp.multiply(c2, multipliers[1], product1)
        xp.right_shift(product1, shift, c0)
        xp.bitwise_xor(c0, c1, c0)
        xp.bitwise_xor(c0, k0, c0)
        xp.bitwise_and(product1, low, c1)
        xp.right_shift(product0, shift, c2)
        xp.bitwise_xor(c2, c3, c2)
        xp.bitwise_xor(c2, k1, c2)
        xp.bitwise_and(product0, low, c3)
    result = xp.empty((c0.size, 4), np.uint32)
    for column, numbers in enumerate((c0, c1, c2, c3)):
        result[:, column] = numbers
    return result


@functools.lru_cache(maxsize=256)
def _operands(key: int, is_near: bool) -> tuple[Any, Any, Any, Any]:
    """The two multipliers, a mask, a shift, and what is added in each of the ten rounds."""
    first, second = key & 0xFFFFFFFF, key >> 32
    rounds = tuple(
        (
            _number((first + i * _WEYL[0]) & 0xFFFFFFFF, is_near),
            _number((second + i * _WEYL[1]) & 0xFFFFFFFF, is_near),
        )
        for i in range(10)
    )
    multipliers = tuple(_number(m, is_near) for m in _MULTIPLIERS)
    return multipliers, _number(0xFFFFFFFF, is_near), _number(32, is_near), rounds


def counted(xp: Any, key: int, start: int, count: int, step: int = 1) -> Any:
    """The numbers of `count` counters from `start`, `step` apart; uint32 (count, 4)."""
    if count <= _PIECE or not is_numpy(xp):
        return _counted(xp, key, start, count, step)
    result = xp.empty((count, 4), np.uint32)
    parts = slices(count, _PIECE)

    def draw(number: int) -> None:
        part = parts[number]
        result[part] = _counted(xp, key, start + part.start * step, part.stop - part.start, step)

    spread(draw, len(parts))
    return result


def _counted(xp: Any, key: int, start: int, count: int, step: int) -> Any:
    return _at(xp, key, start, xp.arange(count, dtype=np.uint64) * np.uint64(step))


def _at(xp: Any, key: int, start: int, offsets: Array) -> Any:
    """The numbers of the counters that lie so far behind `start`: uint64 (n,) to uint32 (n, 4)."""
    base = np.uint64(start & _MASK64)
    low = offsets + base
    high = xp.full(low.size, np.uint64((start >> 64) & _MASK64))
    return blocks(xp, key, low, high + (low < base).astype(np.uint64))


class Generator:
    """The place in its sequence of one random node, which advances from step to step.

    Two seeds of 0 request no particular sequence: the seeds are drawn from the system.
    """

    __slots__ = ("_lock", "counter", "kept", "key")

    def __init__(self, seed: int = 0, seed2: int = 0) -> None:
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self.key = seed & _MASK64
        self.counter = (seed2 & _MASK64) << 64
        #: What a node that draws only once made of its draw.
        self.kept: Any = None
        # Nodes of two concurrent steps may draw on two threads.
        self._lock = threading.Lock()

    def reserve(self, counts: int) -> tuple[int, int]:
        """(key, counter) from which `counts` counters belong to the caller alone."""
        with self._lock:
            start = self.counter
            self.counter = (start + counts) & _MASK128
        return self.key, start


def uniform_bits(xp: Any, key: int, start: int, count: int) -> Any:
    """`count` consecutive 32-bit numbers."""
    return counted(xp, key, start, -(-count // 4)).reshape(-1)[:count]


def to_float32(bits: Array) -> Array:
    """23 bits of each number as a float32 in [0, 1)."""
    ones = bits & np.uint32(0x7FFFFF)
    ones |= np.uint32(0x3F800000)
    numbers: Array = ones.view(np.float32)
    numbers -= np.float32(1)
    return numbers


def to_float64(first: Array, second: Array) -> Array:
    """52 bits of each pair as a float64 in [0, 1)."""
    mantissa = (first.astype(np.uint64) & np.uint64(0xFFFFF)) << _SHIFT | second.astype(np.uint64)
    return (mantissa | np.uint64(0x3FF0000000000000)).view(np.float64) - 1.0


def uniform(xp: Any, key: int, start: int, count: int, dtype: DType) -> Any:
    """`count` numbers in [0, 1) of a floating type."""
    return _uniform_of(counted(xp, key, start, -(-count // group_of(dtype))), dtype).reshape(-1)[:count]


def first_uniform(xp: Any, key: int, start: int, offsets: Array, dtype: DType) -> Any:
    """The first number in [0, 1) of each counter that lies so far behind `start`: uint64 (n,) to (n,)."""
    if offsets.size <= _PIECE or not is_numpy(xp):
        return _uniform_of(_at(xp, key, start, offsets), dtype)[:, 0]
    result = xp.empty(offsets.size, dtype.as_numpy_dtype)

    def draw(part: slice) -> None:
        result[part] = _uniform_of(_at(xp, key, start, offsets[part]), dtype)[:, 0]

    parts = slices(offsets.size, _PIECE)
    spread(lambda number: draw(parts[number]), len(parts))
    return result


def group_of(dtype: DType) -> int:
    """How many uniform numbers of a type a counter gives."""
    return 2 if dtype is dtypes.float64 else 4


def _uniform_of(bits: Array, dtype: DType) -> Any:
    """Numbers in [0, 1) of each counter's bits (n, 4): (n, 4), of float64 (n, 2)."""
    if dtype is dtypes.float64:
        return to_float64(bits[:, ::2], bits[:, 1::2])
    if dtype is dtypes.float32:
        return to_float32(bits)
    short = bits.astype(np.uint16)
    if dtype is dtypes.float16:
        ones = (short & np.uint16(0x3FF)) | np.uint16(0x3C00)
    else:
        ones = (short & np.uint16(0x7F)) | np.uint16(0x3F80)
    numbers: Array = ones.view(dtype.as_numpy_dtype)
    numbers -= numbers.dtype.type(1)
    return numbers


def uniform_integers(xp: Any, key: int, start: int, count: int, low: int, high: int, dtype: DType) -> Any:
    """`count` integers in [low, high) of 32 or 64 bits, by remainder as TensorFlow takes them."""
    if dtype.size == 4:
        bits = uniform_bits(xp, key, start, count)
        span = np.uint32((high - low) & 0xFFFFFFFF)
        return ((bits % span) + np.uint32(low & 0xFFFFFFFF)).view(np.int32).view(dtype.as_numpy_dtype)
    pairs = uniform_bits(xp, key, start, 2 * count).astype(np.uint64)
    wide = pairs[::2] | pairs[1::2] << _SHIFT
    remainder = wide % np.uint64((high - low) & _MASK64)
    return (remainder + np.uint64(low & _MASK64)).view(np.int64).view(dtype.as_numpy_dtype)


def full_integers(xp: Any, key: int, start: int, count: int, dtype: DType) -> Any:
    """`count` integers of 32 or 64 bits, of all values that they can have."""
    if dtype.size == 4:
        return uniform_bits(xp, key, start, count).view(dtype.as_numpy_dtype)
    pairs = uniform_bits(xp, key, start, 2 * count).astype(np.uint64)
    return (pairs[::2] | pairs[1::2] << _SHIFT).view(dtype.as_numpy_dtype)


def _box_muller(xp: Any, first: Array, second: Array) -> Any:
    """Two normal float32 numbers from each pair of 32-bit numbers; (..., 2)."""
    u1 = xp.maximum(to_float32(first), np.float32(_EPSILON))
    angle = (2 * np.pi * to_float32(second).astype(np.float64)).astype(np.float32)
    radius = xp.sqrt(np.float32(-2) * float_functions.log(xp, u1))
    sine, cosine = float_functions.sine_cosine(xp, angle)
    return xp.stack([sine * radius, cosine * radius], axis=-1)


def box_muller64(xp: Any, bits: Array) -> Any:
    """Two normal float64 numbers from each four 32-bit numbers (..., 4); (..., 2)."""
    u1 = xp.maximum(to_float64(bits[..., 0], bits[..., 1]), _EPSILON)
    angle = 2 * np.pi * to_float64(bits[..., 2], bits[..., 3])
    radius = xp.sqrt(-2.0 * xp.log(u1))
    return xp.stack([xp.sin(angle) * radius, xp.cos(angle) * radius], axis=-1)


def normal(xp: Any, key: int, start: int, count: int, dtype: DType) -> Any:
    """`count` numbers of mean 0 and deviation 1."""
    bits = counted(xp, key, start, -(-count // group_of(dtype)))
    return _normal_of(xp, bits, dtype).reshape(-1)[:count].astype(dtype.as_numpy_dtype, copy=False)


def _normal_of(xp: Any, bits: Array, dtype: DType) -> Any:
    """Normal numbers of each counter's bits (n, 4): float32 (n, 4) for all types but float64, (n, 2)."""
    if dtype is dtypes.float64:
        return box_muller64(xp, bits)
    return _box_muller(xp, bits[:, ::2], bits[:, 1::2]).reshape(-1, 4)


def truncated_normal(xp: Any, key: int, start: int, count: int, dtype: DType) -> Any:
    """`count` normal numbers, those outside of two deviations drawn again.

    Each group of four (of two in float64) has a separate range of counters, from which it draws until it has
    enough numbers.
    """
    group = group_of(dtype)
    groups = -(-count // group)
    offsets = xp.arange(groups, dtype=np.uint64) * np.uint64(_stretch(dtype))
    if not is_numpy(xp):
        # So many numbers that enough are inside, except in one of 1e38 groups, so none has to be read.
        candidates = _tried(xp, key, start, offsets, _TRIES_UNSEEN, dtype)
        rank = xp.cumsum(xp.absolute(candidates) < _TRUNCATION, axis=1)
        place = xp.stack([(rank > i).argmax(axis=1) for i in range(group)], axis=1)
        chosen = xp.take_along_axis(candidates, place, axis=1)
        return chosen.reshape(-1)[:count].astype(dtype.as_numpy_dtype, copy=False)
    numbers = _truncated_of(xp, key, start, offsets, dtype).reshape(-1)[:count]
    return numbers.astype(dtype.as_numpy_dtype, copy=False)


def _stretch(dtype: DType) -> int:
    """The counters that a group of truncated normal numbers may use."""
    return group_of(dtype) * RESERVED // 4


def _truncated_of(xp: Any, key: int, start: int, offsets: Array, dtype: DType) -> Any:
    """Truncated normal numbers of the stretches that begin so far behind `start`: (groups, group)."""
    result = xp.empty((offsets.size, group_of(dtype)), np.float64 if dtype is dtypes.float64 else np.float32)
    parts = slices(offsets.size, _PIECE // 2)

    def draw(number: int) -> None:
        part = parts[number]
        _draw_inside(xp, key, start, offsets[part], result[part], dtype)

    spread(draw, len(parts))
    return result


def _draw_inside(xp: Any, key: int, start: int, offsets: Array, result: Array, dtype: DType) -> None:
    """Fill the rows of `result` with what is within two deviations."""
    group = result.shape[1]
    pending = xp.arange(len(result))
    # Two counters give eight numbers, of which four are nearly always inside.
    tries = 2
    while pending.size:
        candidates = _tried(xp, key, start, offsets[pending], tries, dtype)
        inside = xp.absolute(candidates) < _TRUNCATION
        rank = xp.cumsum(inside, axis=1, dtype=np.int32)
        enough = rank[:, -1] >= group
        keep = inside & (rank <= group) & enough[:, None]
        result[pending[enough]] = candidates[keep].reshape(-1, group)
        pending = pending[~enough]
        tries *= 4


def _tried(xp: Any, key: int, start: int, offsets: Array, tries: int, dtype: DType) -> Any:
    """The first normal numbers of each stretch, `tries` counters each."""
    counters = (offsets[:, None] + xp.arange(tries, dtype=np.uint64)).reshape(-1)
    return _normal_of(xp, _at(xp, key, start, counters), dtype).reshape(offsets.size, -1)


class Stream:
    """The numbers from one counter on, one after another, for algorithms that draw until they are content."""

    __slots__ = ("_bits", "_counter", "_key", "_next")

    #: Counters computed at a time.
    _CHUNK: Final = 256

    def __init__(self, key: int, start: int) -> None:
        self._key = key
        self._counter = start
        self._bits: list[int] = []
        self._next = 0

    def bits32(self) -> int:
        if self._next == len(self._bits):
            self._bits = counted(np, self._key, self._counter, self._CHUNK).reshape(-1).tolist()
            self._counter = (self._counter + self._CHUNK) & _MASK128
            self._next = 0
        value = self._bits[self._next]
        self._next += 1
        return value

    def bits64(self) -> int:
        low = self.bits32()
        return low | self.bits32() << 32

    def double(self) -> float:
        """A number in [0, 1)."""
        first = self.bits32()
        return ((first & 0xFFFFF) << 32 | self.bits32()) / float(1 << 52)

    def single(self) -> float:
        """A number in [0, 1) of 23 bits."""
        return (self.bits32() & 0x7FFFFF) / float(1 << 23)

    def below32(self, n: int) -> int:
        """`below`, of 32 bits: n up to 2^32 - 1, but not 0."""
        if n & (n - 1) == 0:
            return self.bits32() & (n - 1)
        surplus = 0xFFFFFFFF % n + 1
        value = self.bits32()
        while value < surplus:
            value = self.bits32()
        return value % n

    def below(self, n: int) -> int:
        """An integer in [0, n), exactly uniform: what would favour the small ones is drawn again."""
        if n & (n - 1) == 0:
            return self.bits64() & (n - 1) if n else self.bits64() * 0
        surplus = _MASK64 % n + 1
        value = self.bits64()
        while value < surplus:
            value = self.bits64()
        return value % n


def generator_of(resources: Any, name: str, seed: int, seed2: int) -> Generator:
    """The generator of one node of a session, which all plans that hold the node share."""
    key = f"{name}/{seed}/{seed2}"
    generator: Generator = resources.lookup_or_create(
        CONTAINER, key, Generator, lambda: Generator(seed, seed2)
    )
    return generator


#: No user's container is called so: clearing those leaves the sequences alone.
CONTAINER: Final = "_random"
