"""Pieces of texts by a SentencePiece model, in the ops of tf_sentencepiece."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they need a library that may be missing: tests/kernels/test_sentencepieces.py": """
        SentencepieceDecode SentencepieceEncodeDense SentencepieceEncodeSparse SentencepieceGetPieceSize
        SentencepieceGetPieceType SentencepieceIdToPiece SentencepiecePieceToId
    """,
}
