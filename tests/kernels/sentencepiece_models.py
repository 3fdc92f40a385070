"""Small SentencePiece models, written by hand: their pieces do not depend on how a library trains."""

from __future__ import annotations

import struct
from typing import Final

from flowengine.ir.wire import bytes_field, field, fixed32_field

#: Kinds of models and of pieces, by the library's numbers.
UNIGRAM, BPE = 1, 2
NORMAL, UNKNOWN, CONTROL, UNUSED, BYTE = 1, 2, 3, 5, 6

_SPACE: Final = "▁"
_WORDS: Final = ("the", "fox", "th", "ox", "hot", "ß", "東", f"{_SPACE}the", f"{_SPACE}f")


def model(kind: int = UNIGRAM, *, marks: bool = True, pad: bool = False, byte_pieces: bool = False) -> bytes:
    """Return the content of a model's file.

    marks         whether there are pieces for the beginning and the end of a text: ids 1 and 2
    pad           whether there is a piece that fills rows: the last id
    byte_pieces   whether what has no piece is divided into bytes
    """
    pieces = [("<unk>", 0.0, UNKNOWN)]
    pieces += [("<s>", 0.0, CONTROL), ("</s>", 0.0, CONTROL)] if marks else []
    pieces += [(each, -1.0 - number / 8, NORMAL) for number, each in enumerate(_WORDS)]
    pieces += [(each, -4.0 - number / 16, NORMAL) for number, each in enumerate((*"thefoxqu", _SPACE))]
    pieces += [("zzz", -9.0, UNUSED)]
    pieces += [(f"<0x{number:02X}>", -20.0, BYTE) for number in range(256)] if byte_pieces else []
    pieces += [("<pad>", 0.0, CONTROL)] if pad else []
    ids = {40: 0, 41: 1 if marks else -1, 42: 2 if marks else -1, 43: len(pieces) - 1 if pad else -1}
    trainer = field(3, kind) + field(4, len(pieces)) + field(35, int(byte_pieces))
    trainer += b"".join(field(number, value & (2**64 - 1)) for number, value in ids.items())
    normalizer = bytes_field(1, b"identity") + field(3, 1) + field(4, 1) + field(5, 1)
    return (
        b"".join(bytes_field(1, _piece(*each)) for each in pieces)
        + bytes_field(2, trainer)
        + bytes_field(3, normalizer)
    )


def _piece(text: str, score: float, kind: int) -> bytes:
    bits = int.from_bytes(struct.pack("<f", score), "little")
    return bytes_field(1, text.encode()) + fixed32_field(2, bits) + field(3, kind)
