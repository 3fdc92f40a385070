"""Hashes of byte strings that TensorFlow's graphs rely on, value for value.

`fingerprint64` and `fingerprint128` are FarmHash's stable fingerprints, `siphash24` the keyed hash of that
name, `murmur64` the older hash that graphs of old hold. All return unsigned 64-bit integers.
"""

from __future__ import annotations

from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
_K0: Final = 0xC3A5C85C97CB3127
_K1: Final = 0xB492B66FBE98F273
_K2: Final = 0x9AE16A3B2F90404F


def _rotate(value: int, shift: int) -> int:
    """Right by `shift` bits."""
    return ((value >> shift) | (value << (64 - shift))) & _MASK


def _shift_mix(value: int) -> int:
    return value ^ (value >> 47)


def _fetch(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _mix16(u: int, v: int, mul: int) -> int:
    a = _shift_mix(((u ^ v) * mul) & _MASK)
    b = _shift_mix(((v ^ a) * mul) & _MASK)
    return (b * mul) & _MASK


def _up_to_16(data: bytes) -> int:
    size = len(data)
    mul = (_K2 + size * 2) & _MASK
    if size >= 8:
        a = (_fetch(data, 0) + _K2) & _MASK
        b = _fetch(data, size - 8)
        c = (_rotate(b, 37) * mul + a) & _MASK
        d = ((_rotate(a, 25) + b) * mul) & _MASK
        return _mix16(c, d, mul)
    if size >= 4:
        low = int.from_bytes(data[:4], "little")
        high = int.from_bytes(data[-4:], "little")
        return _mix16((size + (low << 3)) & _MASK, high, mul)
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[-1] << 2)
        return (_shift_mix(((y * _K2) ^ (z * _K0)) & _MASK) * _K2) & _MASK
    return _K2


def _up_to_32(data: bytes) -> int:
    size = len(data)
    mul = (_K2 + size * 2) & _MASK
    a = (_fetch(data, 0) * _K1) & _MASK
    b = _fetch(data, 8)
    c = (_fetch(data, size - 8) * mul) & _MASK
    d = (_fetch(data, size - 16) * _K2) & _MASK
    y = (_rotate((a + b) & _MASK, 43) + _rotate(c, 30) + d) & _MASK
    return _mix16(y, (a + _rotate((b + _K2) & _MASK, 18) + c) & _MASK, mul)


def _up_to_64(data: bytes) -> int:
    size = len(data)
    mul = (_K2 + size * 2) & _MASK
    a = (_fetch(data, 0) * _K2) & _MASK
    b = _fetch(data, 8)
    c = (_fetch(data, size - 8) * mul) & _MASK
    d = (_fetch(data, size - 16) * _K2) & _MASK
    y = (_rotate((a + b) & _MASK, 43) + _rotate(c, 30) + d) & _MASK
    z = _mix16(y, (a + _rotate((b + _K2) & _MASK, 18) + c) & _MASK, mul)
    e = (_fetch(data, 16) * mul) & _MASK
    f = _fetch(data, 24)
    g = ((y + _fetch(data, size - 32)) * mul) & _MASK
    h = ((z + _fetch(data, size - 24)) * mul) & _MASK
    return _mix16(
        (_rotate((e + f) & _MASK, 43) + _rotate(g, 30) + h) & _MASK,
        (e + _rotate((f + a) & _MASK, 18) + g) & _MASK,
        mul,
    )


def _weak(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    """A weak mix of 32 bytes with two seeds."""
    w, x, y, z = (_fetch(data, at + 8 * i) for i in range(4))
    a = (a + w) & _MASK
    b = _rotate((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    b = (b + _rotate(a, 44)) & _MASK
    return (a + z) & _MASK, (b + c) & _MASK


def fingerprint64(data: bytes) -> int:
    """FarmHash's Fingerprint64.

    >>> fingerprint64(b"hello")
    13009744463427800296
    """
    size = len(data)
    if size <= 16:
        return _up_to_16(data)
    if size <= 32:
        return _up_to_32(data)
    if size <= 64:
        return _up_to_64(data)
    x = 81
    y = (81 * _K1 + 113) & _MASK
    z = (_shift_mix((y * _K2 + 113) & _MASK) * _K2) & _MASK
    v, w = (0, 0), (0, 0)
    x = (x * _K2 + _fetch(data, 0)) & _MASK
    end = (size - 1) // 64 * 64
    for at in range(0, end, 64):
        x, y, z, v, w = _round(data, at, x, y, z, v, w, _K1, 1)
    mul = (_K1 + ((z & 0xFF) << 1)) & _MASK
    first = (w[0] + ((size - 1) & 63)) & _MASK
    v = ((v[0] + first) & _MASK, v[1])
    w = ((first + v[0]) & _MASK, w[1])
    x, y, z, v, w = _round(data, size - 64, x, y, z, v, w, mul, 9)
    return _mix16(
        (_mix16(v[0], w[0], mul) + _shift_mix(y) * _K0 + z) & _MASK,
        (_mix16(v[1], w[1], mul) + x) & _MASK,
        mul,
    )


def _round(
    data: bytes,
    at: int,
    x: int,
    y: int,
    z: int,
    v: tuple[int, int],
    w: tuple[int, int],
    mul: int,
    weight: int,
) -> tuple[int, int, int, tuple[int, int], tuple[int, int]]:
    """64 bytes into the state; the last round weighs what it adds."""
    x = (_rotate((x + y + v[0] + _fetch(data, at + 8)) & _MASK, 37) * mul) & _MASK
    y = (_rotate((y + v[1] + _fetch(data, at + 48)) & _MASK, 42) * mul) & _MASK
    x ^= (w[1] * weight) & _MASK
    y = (y + v[0] * weight + _fetch(data, at + 40)) & _MASK
    z = (_rotate((z + w[0]) & _MASK, 33) * mul) & _MASK
    v = _weak(data, at, (v[1] * mul) & _MASK, (x + w[0]) & _MASK)
    w = _weak(data, at + 32, (z + w[1]) & _MASK, (y + _fetch(data, at + 16)) & _MASK)
    return z, y, x, v, w


#: By what two halves of 128 bits are mixed into 64.
_HALVES: Final = 0x9DDFEA08EB382D69


def fingerprint128(data: bytes) -> tuple[int, int]:
    """FarmHash's Fingerprint128, which is CityHash's: the low and the high half.

    >>> fingerprint128(b"abc")[0]
    4143508125394299908
    """
    if len(data) < 16:
        return _seeded128(data, _K0, _K1)
    return _seeded128(data[16:], _fetch(data, 0), (_fetch(data, 8) + _K0) & _MASK)


def _mix_halves(low: int, high: int) -> int:
    return _mix16(low & _MASK, high & _MASK, _HALVES)


def _seeded128(data: bytes, low: int, high: int) -> tuple[int, int]:
    size = len(data)
    if size < 128:
        return _short128(data, low, high)
    x, y, z = low, high, (size * _K1) & _MASK
    first = (_rotate(y ^ _K1, 49) * _K1 + _fetch(data, 0)) & _MASK
    v = (first, (_rotate(first, 42) * _K1 + _fetch(data, 8)) & _MASK)
    second = (_rotate((x + _fetch(data, 88)) & _MASK, 53) * _K1) & _MASK
    w = ((_rotate((y + z) & _MASK, 35) * _K1 + x) & _MASK, second)
    for at in range(0, size - size % 128, 64):
        x = (_rotate((x + y + v[0] + _fetch(data, at + 8)) & _MASK, 37) * _K1) & _MASK ^ w[1]
        y = _rotate((y + v[1] + _fetch(data, at + 48)) & _MASK, 42) * _K1
        y = (y + v[0] + _fetch(data, at + 40)) & _MASK
        z = (_rotate((z + w[0]) & _MASK, 33) * _K1) & _MASK
        v = _weak(data, at, (v[1] * _K1) & _MASK, (x + w[0]) & _MASK)
        w = _weak(data, at + 32, (z + w[1]) & _MASK, (y + _fetch(data, at + 16)) & _MASK)
        z, x = x, z
    return _last128(data, (x, y, z), v, w)


def _last128(
    data: bytes, state: tuple[int, int, int], v: tuple[int, int], w: tuple[int, int]
) -> tuple[int, int]:
    """The bytes behind the last whole 128, from the end in blocks of 32, and the last mixing."""
    x, y, z = state
    size = len(data)
    x = (x + _rotate((v[0] + z) & _MASK, 49) * _K0) & _MASK
    y = (y * _K0 + _rotate(w[1], 37)) & _MASK
    z = (z * _K0 + _rotate(w[0], 27)) & _MASK
    w = ((w[0] * 9) & _MASK, w[1])
    v = ((v[0] * _K0) & _MASK, v[1])
    for done in range(32, size % 128 + 32, 32):
        at = size - done
        y = (_rotate((x + y) & _MASK, 42) * _K0 + v[1]) & _MASK
        w = ((w[0] + _fetch(data, at + 16)) & _MASK, w[1])
        x = (x * _K0 + w[0]) & _MASK
        z = (z + w[1] + _fetch(data, at)) & _MASK
        w = (w[0], (w[1] + v[0]) & _MASK)
        v = _weak(data, at, (v[0] + z) & _MASK, v[1])
        v = ((v[0] * _K0) & _MASK, v[1])
    x, y = _mix_halves(x, v[0]), _mix_halves(y + z, w[0])
    return (_mix_halves(x + v[1], w[1]) + y) & _MASK, _mix_halves(x + w[1], y + v[1])


def _short128(data: bytes, low: int, high: int) -> tuple[int, int]:
    """Fewer than 128 bytes."""
    size = len(data)
    a, b = low, high
    if size <= 16:
        a = (_shift_mix((a * _K1) & _MASK) * _K1) & _MASK
        c = (b * _K1 + _up_to_16(data)) & _MASK
        d = _shift_mix((a + (_fetch(data, 0) if size >= 8 else c)) & _MASK)
    else:
        c = _mix_halves(_fetch(data, size - 8) + _K1, a)
        d = _mix_halves(b + size, c + _fetch(data, size - 16))
        a = (a + d) & _MASK
        for at in range(0, size - 16, 16):
            a = ((a ^ (_shift_mix((_fetch(data, at) * _K1) & _MASK) * _K1) & _MASK) * _K1) & _MASK
            b ^= a
            c = ((c ^ (_shift_mix((_fetch(data, at + 8) * _K1) & _MASK) * _K1) & _MASK) * _K1) & _MASK
            d ^= c
    a, b = _mix_halves(a, c), _mix_halves(d, b)
    return a ^ b, _mix_halves(b, a)


def siphash24(key: tuple[int, int], data: bytes) -> int:
    """SipHash-2-4 under a key of two 64-bit integers.

    >>> hex(siphash24((0x0706050403020100, 0x0F0E0D0C0B0A0908), bytes(range(15))))
    '0xa129ca6149be45e5'
    """
    v0 = key[0] ^ 0x736F6D6570736575
    v1 = key[1] ^ 0x646F72616E646F6D
    v2 = key[0] ^ 0x6C7967656E657261
    v3 = key[1] ^ 0x7465646279746573

    def compress(rounds: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(rounds):
            v0 = (v0 + v1) & _MASK
            v2 = (v2 + v3) & _MASK
            v1 = _rotate(v1, 51) ^ v0
            v3 = _rotate(v3, 48) ^ v2
            v0 = _rotate(v0, 32)
            v2 = (v2 + v1) & _MASK
            v0 = (v0 + v3) & _MASK
            v1 = _rotate(v1, 47) ^ v2
            v3 = _rotate(v3, 43) ^ v0
            v2 = _rotate(v2, 32)

    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        block = _fetch(data, at)
        v3 ^= block
        compress(2)
        v0 ^= block
    last = int.from_bytes(data[whole:], "little") | ((len(data) & 0xFF) << 56)
    v3 ^= last
    compress(2)
    v0 ^= last
    v2 ^= 0xFF
    compress(4)
    return v0 ^ v1 ^ v2 ^ v3


_MURMUR: Final = 0xC6A4A7935BD1E995
_MURMUR_SEED: Final = 0xDECAFCAFFE


def murmur64(data: bytes, seed: int = _MURMUR_SEED) -> int:
    """The 64-bit Murmur hash, with the seed that TensorFlow's string hashing uses."""
    h = seed ^ ((len(data) * _MURMUR) & _MASK)
    whole = len(data) // 8 * 8
    for at in range(0, whole, 8):
        k = (_fetch(data, at) * _MURMUR) & _MASK
        k = ((k ^ (k >> 47)) * _MURMUR) & _MASK
        h = ((h ^ k) * _MURMUR) & _MASK
    if whole < len(data):
        h = ((h ^ int.from_bytes(data[whole:], "little")) * _MURMUR) & _MASK
    h = ((h ^ (h >> 47)) * _MURMUR) & _MASK
    return h ^ (h >> 47)
