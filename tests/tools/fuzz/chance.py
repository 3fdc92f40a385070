"""Choices of one seed: numbers that have broken programs before, and bytes damaged in small ways."""

from __future__ import annotations

import random
from typing import Final

#: Where arithmetic on sizes goes wrong: at the ends of types, and just beyond them.
NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 7, 64, 127, 128, 255, 256, 65535, 65536),
    *(2**31 - 1, 2**31, -(2**31), 2**32 - 1, 2**32, 2**40, 2**62, 2**63 - 1, -(2**63)),
)
FLOATS: Final = (0.0, -0.0, 1.0, -1.0, 0.5, 1e-45, 1e38, 1e308, float("inf"), float("-inf"), float("nan"))


def chance_of(kind: str, seed: int) -> random.Random:
    """The choices of a seed: the same in every process."""
    return random.Random(f"{kind}:{seed}")


def damaged(data: bytes, chance: random.Random, times: int | None = None) -> bytes:
    """Bytes with a few small damages: bits turned, parts cut out or doubled, lengths made absurd."""
    out = bytearray(data)
    for _ in range(chance.choice([1, 1, 1, 2, 3, 5]) if times is None else times):
        if not out:
            return chance.randbytes(chance.randint(0, 8))
        place = chance.randrange(len(out))
        end = min(len(out), place + chance.choice([1, 2, 4, 8, 32, len(out)]))
        kind = chance.randrange(7)
        if kind == 0:
            out[place] ^= 1 << chance.randrange(8)
        elif kind == 1:
            out[place] = chance.choice([0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)])
        elif kind == 2:
            del out[place:end]
        elif kind == 3:
            out[place:place] = out[place:end]
        elif kind == 4:
            out[place:place] = chance.randbytes(chance.randint(1, 16))
        elif kind == 5:
            size = chance.choice([2, 4, 8])
            number = chance.choice(NUMBERS) % (1 << 8 * size)
            out[place : place + size] = number.to_bytes(size, chance.choice(["little", "big"]))
        else:
            del out[place:]
    return bytes(out)
