"""Pieces of texts by a SentencePiece model, in the ops of tf_sentencepiece: rows of a matrix."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import trio

from flowengine.core.abandonment import each
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.array_args import brackets, shape_of
from flowengine.kernels.common.file_access import require_reading, translated
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.sentencepiece_model import SentencePieceModel
from flowengine.kernels.strings.sentencepieces import (
    loaded,
    numbers_of,
    one_each,
    piece_kind,
    piece_values,
    texts_of,
)
from flowengine.kernels.strings.text import strings_like

#: {piece_type: the question that it asks}
_TYPES: Final[dict[int, Callable[[SentencePieceModel, int], bool]]] = {
    0: SentencePieceModel.is_unknown,
    1: SentencePieceModel.is_control,
    2: SentencePieceModel.is_unused,
}


async def _model(ctx: KernelContext, file: bytes, proto: bytes) -> SentencePieceModel:
    """The model of a file or of its content, which the session loads once.

    Raises NotFoundError, PermissionDeniedError (also by configuration), and InvalidArgumentError for what is
    no model, or if both are given, or neither.
    """
    if bool(file) == bool(proto):
        raise InvalidArgumentError("either `model_file` or `model_proto` must be set, and not both")
    if proto:
        return await loaded(ctx, "", f"_sentencepiece_proto_{hash(proto)}", lambda: proto)
    path = os.fsdecode(file)
    require_reading(ctx, path)

    def read() -> bytes:
        with ctx.files.open(path) as opened:
            return opened.read()

    try:
        return await loaded(ctx, "", f"_sentencepiece_file_{path}", read)
    except OSError as error:
        raise translated(error, path) from error


@kernel("SentencepieceGetPieceSize", heavy=False)
async def get_piece_size(*, ctx: KernelContext, model_file: bytes, model_proto: bytes) -> Any:
    """How many pieces the model has (int32, rank 0)."""
    return np.int32((await _model(ctx, model_file, model_proto)).size)


@kernel("SentencepiecePieceToId", fresh=True, heavy=False)
async def piece_to_id(pieces: Value, *, ctx: KernelContext, model_file: bytes, model_proto: bytes) -> Any:
    """The id of each piece (int32), that of the unknown piece for those that the model lacks."""
    return numbers_of(await _model(ctx, model_file, model_proto), to_array(pieces))


@kernel("SentencepieceIdToPiece", fresh=True, heavy=False)
async def id_to_piece(ids: Value, *, ctx: KernelContext, model_file: bytes, model_proto: bytes) -> Value:
    """The piece of each id, and an empty string for an id that the model lacks."""
    model = await _model(ctx, model_file, model_proto)
    array = to_array(ids)
    size = model.size
    pieces = [model.piece(number) if 0 <= number < size else b"" for number in array.reshape(-1).tolist()]
    return strings_like(pieces, array.shape)


@kernel("SentencepieceGetPieceType", fresh=True, heavy=False)
async def get_piece_type(
    ids: Value, *, ctx: KernelContext, model_file: bytes, model_proto: bytes, piece_type: int
) -> Any:
    """Whether each id is the unknown piece (piece_type 0), a mark (1) or an unused piece (2).

    Raises InvalidArgumentError for other types, and for an id that the model lacks.
    """
    is_such = _TYPES.get(piece_type)
    if is_such is None:
        raise InvalidArgumentError(
            f"piece_type must be 0 (unknown), 1 (control) or 2 (unused), not {piece_type}"
        )
    model = await _model(ctx, model_file, model_proto)
    array = to_array(ids)
    found = [is_such(model, number) for number in array.reshape(-1).tolist()]
    return np.array(found, np.bool_).reshape(array.shape)[()]


async def _rows(
    texts: Value,
    nbest_size: Value,
    alpha: Value,
    model: SentencePieceModel,
    kind: type,
    *,
    reverse: bool,
    add_bos: bool,
    add_eos: bool,
) -> list[list[Any]]:
    """The pieces of each text, reversed if that is asked, then with the marks of beginning and end."""
    if len(shape_of(texts)) != 1:
        raise InvalidArgumentError(f"`input` must be a vector, got shape: {brackets(shape_of(texts))}")
    listed = texts_of(texts)
    begin = [model.beginning(kind)] if add_bos else []
    end = [model.end(kind)] if add_eos else []

    def row(asked: tuple[bytes, int, float]) -> list[Any]:
        pieces = list(model.encode(asked[0], kind, *asked[1:]))
        return [*begin, *(pieces[::-1] if reverse else pieces), *end]

    count = len(listed)
    asked = list(
        zip(
            listed,
            one_each(nbest_size, count, "`nbest_size`"),
            one_each(alpha, count, "`alpha`"),
            strict=True,
        )
    )
    return await trio.to_thread.run_sync(each, row, asked, abandon_on_cancel=True)


@kernel("SentencepieceEncodeDense", fresh=True, heavy=False)
async def encode_dense(
    texts: Value,
    nbest_size: Value,
    alpha: Value,
    *,
    ctx: KernelContext,
    model_file: bytes,
    model_proto: bytes,
    out_type: DType,
    reverse: bool,
    add_bos: bool,
    add_eos: bool,
) -> tuple[Value, Array]:
    """The pieces of each text as a row, and how many they are (int32).

    Shorter rows end in the piece for padding; in zeros or empty strings if the model has none.

    nbest_size   of each text: 0 or 1 for the best division; one that is drawn for others
    alpha        how sharply drawing prefers the best ones
    """
    model, kind = await _model(ctx, model_file, model_proto), piece_kind(out_type)
    rows = await _rows(
        texts, nbest_size, alpha, model, kind, reverse=reverse, add_bos=add_bos, add_eos=add_eos
    )
    lengths = [len(row) for row in rows]
    width = max(lengths, default=0)
    pad: Any = 0 if kind is int else b""
    if model.pad_id >= 0:
        pad = model.pad_id if kind is int else model.piece(model.pad_id)
    padded = [piece for row in rows for piece in (*row, *[pad] * (width - len(row)))]
    return to_array(piece_values(padded, kind)).reshape(len(rows), width), np.array(lengths, np.int32)


@kernel("SentencepieceEncodeSparse", fresh=True, heavy=False)
async def encode_sparse(
    texts: Value,
    nbest_size: Value,
    alpha: Value,
    *,
    ctx: KernelContext,
    model_file: bytes,
    model_proto: bytes,
    out_type: DType,
    reverse: bool,
    add_bos: bool,
    add_eos: bool,
) -> tuple[Array, Value, Array]:
    """As `encode_dense`, as a sparse matrix: indices (int64 [n, 2]), values, dense shape (int64 [2])."""
    model, kind = await _model(ctx, model_file, model_proto), piece_kind(out_type)
    rows = await _rows(
        texts, nbest_size, alpha, model, kind, reverse=reverse, add_bos=add_bos, add_eos=add_eos
    )
    places = [(number, place) for number, row in enumerate(rows) for place in range(len(row))]
    return (
        np.array(places, np.int64).reshape(len(places), 2),
        piece_values([piece for row in rows for piece in row], kind),
        np.array([len(rows), max(map(len, rows), default=0)], np.int64),
    )


@kernel("SentencepieceDecode", fresh=True, heavy=False)
async def decode(
    pieces: Value,
    lengths: Value,
    *,
    ctx: KernelContext,
    model_file: bytes,
    model_proto: bytes,
    T: DType,
    reverse: bool,
) -> Value:
    """The text of the first pieces of each row, `lengths` of them; in reverse order if that is asked.

    Raises InvalidArgumentError for ids that the model lacks, and for lengths beyond the row.
    """
    matrix, counts = to_array(pieces), to_array(lengths)
    if matrix.ndim != 2:
        raise InvalidArgumentError(f"`input` must be a matrix, got shape: {brackets(matrix.shape)}")
    if counts.shape != matrix.shape[:1]:
        raise InvalidArgumentError(
            f"`sequence_length` must be a vector of one length for each of {len(matrix)} rows, "
            f"got shape: {brackets(counts.shape)}"
        )
    outside = (counts < 0) | (counts > matrix.shape[1])
    if outside.any():
        raise InvalidArgumentError(
            f"`sequence_length` {int(counts[outside][0])} is not in [0, {matrix.shape[1]}], as rows are long"
        )
    model = await _model(ctx, model_file, model_proto)
    rows = [row[:count] for row, count in zip(matrix.tolist(), counts.tolist(), strict=True)]
    if reverse:
        rows = [row[::-1] for row in rows]
    texts = await trio.to_thread.run_sync(each, model.decode, rows, abandon_on_cancel=True)
    return strings_like(texts, (len(texts),))
