"""PNG files drawn at random: every colour type and depth, chunks around the pixels, and damage.

Runs with the Python of TensorFlow 1.15 too, which is 3.7. Pixels are deflated without compression, so that a
file is the same whatever zlib made it.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    #: (name, op, file, attributes)
    Case = tuple[str, str, bytes, dict[str, Any]]
    Chunks = list[tuple[bytes, bytes]]

SIGNATURE = b"\x89PNG\r\n\x1a\n"
#: {colour type: samples of a pixel}
SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
TYPES = [
    (0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 1), (3, 2), (3, 4), (3, 8),
    (4, 8), (4, 16), (6, 8), (6, 16),
]  # fmt: skip
#: Begin and steps of Adam7.
PASSES = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
WHOLE = ("plain", "interlaced", "transparent", "gamma", "srgb", "bits", "both", "other_chunks")
DAMAGED = (
    "cut", "flipped", "deflated_wrong", "no_end", "checksum", "more", "less", "critical", "no_pixels",
    "filter", "no_palette", "short_palette", "two_heads", "between", "empty", "head", "bad_gamma",
)  # fmt: skip


def chunk(name: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def stored(data: bytes) -> bytes:
    """A zlib stream of one block that is not compressed."""
    head = b"\x78\x01\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF)
    return head + data + struct.pack(">I", zlib.adler32(data))


def rows(chance: random.Random, head: tuple[int, ...], filters: int) -> bytes:
    """The filtered rows of a picture, of all passes."""
    width, height, depth, colour, _, _, interlaced = head
    sizes = [(width, height)]
    if interlaced:
        sizes = [(-(-(width - x) // dx), -(-(height - y) // dy)) for x, y, dx, dy in PASSES]
    out = bytearray()
    for columns, lines in sizes:
        for _ in range(lines if columns > 0 else 0):
            out.append(chance.randrange(filters))
            size = (columns * SAMPLES[colour] * depth + 7) // 8
            out += bytes(chance.randrange(256) for _ in range(size))
    return bytes(out)


def before_pixels(chance: random.Random, kind: str, colour: int, depth: int) -> Chunks:
    """Chunks that change what becomes of the samples."""
    gamma = (b"gAMA", struct.pack(">I", chance.choice([45455, 60000, 98000, 220000])))
    entries = 1 << depth
    out: Chunks = []
    if kind == "bad_gamma":
        out.append((b"gAMA", chance.choice([b"\0\0\0\0", b"abc", struct.pack(">I", 700000000)])))
    if kind in ("gamma", "bits", "both"):
        out.append(gamma)
    if kind in ("srgb", "both"):
        out.insert(chance.randrange(2) if out else 0, (b"sRGB", b"\0"))
    if kind == "bits":
        most = 16 if depth == 16 else depth if colour != 3 else 8
        count = 3 if colour == 3 else SAMPLES[colour]
        out.append((b"sBIT", bytes(chance.randrange(1, most + 1) for _ in range(count))))
    if colour == 3 and kind != "no_palette":
        entries = 3 if kind == "short_palette" else entries
        out.append((b"PLTE", bytes(chance.randrange(256) for _ in range(3 * entries))))
    if kind in ("transparent", "other_chunks"):
        if colour == 0:
            out.append((b"tRNS", struct.pack(">H", chance.randrange(1 << min(depth, 6)))))
        elif colour == 2:
            out.append((b"tRNS", struct.pack(">HHH", 1, 2, 3)))
        elif colour == 3:
            out.append((b"tRNS", bytes(chance.randrange(256) for _ in range(entries - 1))))
    if kind == "other_chunks":
        out.append(chance.choice([(b"iCCP", b"zz"), (b"tEXt", b"a\0b"), (b"abCD", b""), (b"tIME", b"q")]))
    return out


def drawn(chance: random.Random, kind: str, colour: int, depth: int) -> bytes:
    """A file of this kind."""
    interlaced = int(kind == "interlaced" or chance.random() < 0.2)
    head = (chance.randrange(1, 14), chance.randrange(1, 11), depth, colour, 0, 0, interlaced)
    around = before_pixels(chance, kind, colour, depth)
    raw = rows(chance, head, 9 if kind == "filter" else 5)
    if kind == "less":
        raw = raw[: -chance.choice([1, 5])]
    pixels = bytearray(stored(raw + b"x" * (9 if kind == "more" else 0)))
    if kind == "deflated_wrong":
        pixels[chance.randrange(len(pixels))] ^= 1 << chance.randrange(8)
    if kind == "checksum":
        pixels[-4:] = b"abcd"
    cut = chance.randrange(len(pixels))
    parts: Chunks = [(b"IHDR", struct.pack(">IIBBBBB", *head)), *around]
    data = [(b"IDAT", bytes(pixels[:cut])), (b"IDAT", bytes(pixels[cut:]))]
    if kind == "between":
        data.insert(1, (b"tEXt", b"a\0b"))
    if kind == "empty":
        data = [(b"IDAT", b""), data[0], (b"IDAT", b""), data[1], (b"IDAT", b"")]
    if kind == "head":
        wrong = bytearray(parts[0][1])
        wrong[chance.choice([3, 7, 8, 9, 10, 11, 12])] = chance.choice([0, 1, 2, 3, 4, 7, 8, 16])
        parts[0] = (b"IHDR", bytes(wrong))
    if kind == "two_heads":
        parts.append(parts[0])
    if kind == "critical":
        parts.append((chance.choice([b"ABCD", b"AbCD", b"aBCD"]), b"zz"))
    parts += [] if kind == "no_pixels" else data
    parts += [] if kind == "no_end" else [(b"IEND", b"")]
    file = SIGNATURE + b"".join(chunk(name, contents) for name, contents in parts)
    if kind == "cut":
        return file[: chance.randrange(8, len(file))]
    if kind == "flipped":
        changed = bytearray(file)
        changed[chance.randrange(8, len(file))] ^= 1 << chance.randrange(8)
        return bytes(changed)
    return file


def cases() -> Iterator[Case]:
    chance = random.Random(2047)
    for kind in WHOLE:
        for colour, depth in TYPES:
            attrs = {"channels": chance.choice([0, 1, 3, 4]), "dtype": chance.choice(["uint8", "uint16"])}
            yield f"png/{kind}/{colour}_{depth}", "DecodePng", drawn(chance, kind, colour, depth), attrs
    for kind in DAMAGED:
        for count in range(5):
            colour, depth = chance.choice(TYPES) if "palette" not in kind else (3, chance.choice([1, 2, 8]))
            attrs = {"channels": chance.choice([0, 1, 3, 4]), "dtype": chance.choice(["uint8", "uint16"])}
            yield f"png/{kind}/{count}", "DecodePng", drawn(chance, kind, colour, depth), attrs
