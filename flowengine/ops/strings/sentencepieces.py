"""Pieces of texts by a SentencePiece model, in the ops of TensorFlow Text.

The model is a resource, and the pieces of texts are rows of a ragged tensor.
"""

from __future__ import annotations

from typing import Final

from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ir.traits import NotDifferentiable, Uses
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    VECTOR,
    add_dims,
    check_scalars,
    dims_of,
    ranked,
    scalars,
    vector,
)

_USES: Final = Uses("sp_handle")
_TYPES: Final = "out_type: {int32, string} = int32; Tsplits: indextype = int64"

define(
    "SentencepieceOp() -> handle: resource",
    "stateful; model, container, shared_name: string = ''; use_node_name_sharing: bool = false",
    NotDifferentiable(),
    shape=scalars,
)
define(
    "SentencepieceVocabSizeOp(sp_handle: resource) -> vocab_size: int32",
    "stateful",
    _USES,
    NotDifferentiable(),
    shape=scalars,
)


@define(
    "SentencepieceTokenizeOp(sp_handle: resource, input: string, nbest_size: int32, alpha: float, "
    "add_bos, add_eos, reverse: bool) -> output_values: out_type, output_splits: Tsplits",
    "stateful; return_nbest: bool = false",
    _TYPES,
    _USES,
    NotDifferentiable(),
)
@define(
    "SentencepieceTokenizeWithOffsetsOp(sp_handle: resource, input: string, nbest_size: int32, alpha: float, "
    "add_bos, add_eos, reverse: bool) -> output_values: out_type, output_splits: Tsplits, "
    "output_offset_starts, output_offset_limits: int64",
    "stateful",
    _TYPES,
    _USES,
    NotDifferentiable(),
)
def tokenized(c: ShapeContext) -> Shapes:
    """Pieces of all texts, the first place of each text among them and the end, and places in its bytes."""
    check_scalars(c, 0, 2, 3, 4, 5, 6)
    (texts,) = dims_of(ranked(c, 1, 1), 1)
    splits = VECTOR if c.attrs.get("return_nbest") else vector(add_dims(texts, 1))
    return [VECTOR, splits, VECTOR, VECTOR][: c.num_outputs]


@define(
    "SentencepieceDetokenizeOp(sp_handle: resource, input_values: T, input_splits: Tsplits, "
    "add_bos, add_eos, reverse: bool) -> output: string",
    "stateful; T: {int32, string} = int32; Tsplits: indextype = int64",
    _USES,
    NotDifferentiable(),
)
def detokenized(c: ShapeContext) -> Shapes:
    """One text less than there are splits"""
    check_scalars(c, 0, 3, 4, 5)
    ranked(c, 1, 1)
    (splits,) = dims_of(ranked(c, 2, 1), 1)
    return [vector(None if splits is None else max(splits - 1, 0))]


@define(
    "SentencepieceIdToStringOp(sp_handle: resource, input: int32) -> values: string",
    "stateful",
    _USES,
    NotDifferentiable(),
)
@define(
    "SentencepieceStringToIdOp(sp_handle: resource, input: string) -> values: int32",
    "stateful",
    _USES,
    NotDifferentiable(),
)
def looked_up(c: ShapeContext) -> Shapes:
    return [ranked(c, 1, 1)]
