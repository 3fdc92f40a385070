"""GIF files drawn at random: parts of the screen, tables of colours, transparency, disposals, and damage.

Runs with the Python of TensorFlow 1.15 too, which is 3.7.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tests.kernels.pictures.png_files import Case

KINDS = (
    "whole", "parts", "more_parts", "outside", "own_colours", "large_screen", "small_screen", "old",
    "more_codes", "short_table", "no_colours", "first_part", "fewer_codes", "no_end", "cut", "changed",
)  # fmt: skip


def coded(pixels: bytes, bits: int) -> bytes:
    """The pixels in LZW codes, in blocks."""
    clear = 1 << bits
    out, held, count = bytearray(), 0, 0
    table = {bytes((i,)): i for i in range(clear)}
    width, after = bits + 1, clear + 2

    def put(code: int) -> None:
        nonlocal held, count
        held |= code << count
        count += width
        while count >= 8:
            out.append(held & 255)
            held >>= 8
            count -= 8

    put(clear)
    run = b""
    for pixel in pixels:
        longer = run + bytes((pixel,))
        if longer in table:
            run = longer
            continue
        put(table[run])
        if after < 4096:
            table[longer] = after
            after += 1
            width += after - 1 == 1 << width and width < 12
        run = longer[-1:]
    if run:
        put(table[run])
    put(clear + 1)
    out.append(held & 255)
    blocks = [bytes(out[i : i + 250]) for i in range(0, len(out), 250)]
    return bytes((bits,)) + b"".join(bytes((len(block),)) + block for block in blocks) + b"\0"


def colours(chance: random.Random, bits: int) -> bytes:
    return bytes(chance.randrange(256) for _ in range(3 << bits))


def frame(chance: random.Random, kind: str, box: tuple[int, ...], shared: int, disposal: int) -> bytes:
    """A frame with the control block before it, if it has one."""
    own = 3 if kind == "own_colours" else 0 if kind == "no_colours" else chance.choice([0, 0, 2, 4])
    out = b""
    if chance.random() < 0.85:
        number = chance.choice([None, 0, 1, 2])
        flags = disposal << 2 | (number is not None)
        out += b"!\xf9\x04" + struct.pack("<BHB", flags, 5, number or 0) + b"\0"
    table = 0x80 | (own - 1) if own else 0
    out += b"," + struct.pack("<HHHHB", *box, table | (0x40 if chance.random() < 0.3 else 0))
    out += colours(chance, own) if own else b""
    bits = own or shared or 3
    if kind == "short_table":
        bits = min(bits + 1, 8)
    count = box[2] * box[3] + {"more_codes": 9, "fewer_codes": -2}.get(kind, 0)
    pixels = b""
    while len(pixels) < count:
        pixels += bytes((chance.randrange(1 << bits),)) * chance.randrange(1, 4)
    out += coded(pixels[: max(count, 0)], max(bits, 2))
    return out + (b"!\xfe\x03abc\0" if chance.random() < 0.2 else b"")


def drawn(chance: random.Random, kind: str) -> bytes:
    """A file of this kind, of one to four frames."""
    width, height = chance.randrange(3, 14), chance.randrange(3, 12)
    shared = 0 if kind in ("no_colours", "own_colours") else chance.choice([1, 2, 3, 5, 8])
    more = {"large_screen": 3, "small_screen": -2}.get(kind, 0)
    screen = struct.pack("<HHBBB", width + more, height + more, 0x80 | (shared - 1) if shared else 0, 1, 0)
    out = (b"GIF87a" if kind == "old" else b"GIF89a") + screen + (colours(chance, shared) if shared else b"")
    for index in range(chance.randrange(1, 5)):
        box = [0, 0, width, height]
        if (index and kind != "whole") or kind == "first_part":
            box[2:] = chance.randrange(1, width + 1), chance.randrange(1, height)
            box[:2] = chance.randrange(width - box[2] + 1), chance.randrange(height - box[3] + 1)
        if index and kind == "outside":
            box[0] += chance.choice([width // 2, 40000])
            box[1] += chance.randrange(height)
        out += frame(chance, kind, tuple(box), shared, disposal=chance.randrange(4))
    out += b"" if kind == "no_end" else b";"
    if kind == "cut":
        return out[: chance.randrange(13, len(out))]
    if kind == "changed":
        changed = bytearray(out)
        changed[chance.randrange(6, len(out))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    return out


def cases() -> Iterator[Case]:
    chance = random.Random(89)
    for kind in KINDS:
        for count in range(5):
            attrs: dict[str, Any] = {}
            op = "DecodeGif"
            if not count % 4:
                op, attrs = "DecodePng", {"channels": chance.choice([0, 3, 3, 1]), "dtype": "uint8"}
            yield f"gif/{kind}/{op}/{count}", op, drawn(chance, kind), attrs
