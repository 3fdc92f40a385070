"""Pieces of texts by a SentencePiece model, in the ops of tf_sentencepiece.

Each node names its model, by a file or as a string, and the pieces of texts are rows of a matrix.
"""

from __future__ import annotations

from typing import Final

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.trait_checks.outward import ReadsFiles
from flowengine.ir.traits import Impure, NotDifferentiable
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    dims_of,
    merge_dims,
    ranked,
    ranked_at_most,
    scalars,
    unchanged,
    vector,
)

_MODEL: Final = "model_file, model_proto: string = ''"
_READS: Final = ReadsFiles("model_file")

define(
    "SentencepieceGetPieceSize() -> vocab_size: int32",
    _MODEL,
    Impure(),
    _READS,
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SentencepiecePieceToId(input: string) -> values: int32",
    _MODEL,
    Impure(),
    _READS,
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "SentencepieceIdToPiece(input: int32) -> values: string",
    _MODEL,
    Impure(),
    _READS,
    NotDifferentiable(),
    shape=unchanged,
)
define(
    "SentencepieceGetPieceType(input: int32) -> values: bool",
    _MODEL,
    "piece_type: int = 0",
    Impure(),
    _READS,
    NotDifferentiable(),
    shape=unchanged,
)


@define(
    "SentencepieceEncodeDense(input: string, nbest_size: int32, alpha: float) "
    "-> values: out_type, sequence_length: int32",
    _MODEL,
    "out_type: {int32, string} = int32; reverse, add_bos, add_eos: bool = false",
    Impure(),
    _READS,
    NotDifferentiable(),
)
@define(
    "SentencepieceEncodeSparse(input: string, nbest_size: int32, alpha: float) "
    "-> indices: int64, values: out_type, dense_shape: int64",
    _MODEL,
    "out_type: {int32, string} = int32; reverse, add_bos, add_eos: bool = false",
    Impure(),
    _READS,
    NotDifferentiable(),
)
def encoded(c: ShapeContext) -> Shapes:
    """A matrix of a row for each text with their lengths, or a sparse matrix"""
    (texts,) = dims_of(ranked(c, 0, 1), 1)
    for index in (1, 2):
        shape = ranked_at_most(c, index, 1)
        if shape.dims:
            texts = merge_dims(texts, shape.dims[0])
    if c.num_outputs == 2:
        return [TensorShape([texts, None]), vector(texts)]
    return [TensorShape([None, 2]), VECTOR, vector(2)]


@define(
    "SentencepieceDecode(input: T, sequence_length: int32) -> values: string",
    _MODEL,
    "T: {int32, string}; reverse: bool = false",
    Impure(),
    _READS,
    NotDifferentiable(),
)
def decoded(c: ShapeContext) -> Shapes:
    rows = dims_of(ranked(c, 0, 2), 2)[0]
    (lengths,) = dims_of(ranked(c, 1, 1), 1)
    return [vector(merge_dims(rows, lengths))]
