"""Pieces of texts by a SentencePiece model, in the ops of TensorFlow Text: rows of a ragged tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import trio

from flowengine.core import dtypes
from flowengine.core.abandonment import each
from flowengine.core.arrays import Array, Value, to_array
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.graph import Node
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.context import KernelContext
from flowengine.kernels.registry import kernel
from flowengine.kernels.strings.elements import lengths_of
from flowengine.kernels.strings.sentencepiece_model import SentencePieceModel
from flowengine.kernels.strings.text import strings_like
from flowengine.resources.names import resource_name

#: Microseconds that a text takes, about: so short that a step would not notice it on a thread.
_TEXT_COST: Final = 20.0


def _cost(handle: Any, values: Any, *_: Any) -> float:
    return _TEXT_COST * float(getattr(values, "size", 1))


def piece_kind(dtype: DType) -> type:
    """`int` for pieces as ids, `bytes` for pieces as strings."""
    return bytes if dtype is dtypes.string else int


def piece_values(pieces: Sequence[Any], kind: type) -> Value:
    """(N,): ids or strings."""
    if kind is int:
        return np.fromiter(pieces, np.int32, len(pieces))
    return strings_like(pieces, (len(pieces),))


def texts_of(value: Value) -> list[bytes]:
    listed: list[bytes] = to_array(value).reshape(-1).tolist()
    return listed


def one_each(value: Value, count: int, name: str) -> list[Any]:
    """A scalar, or one value for each text."""
    array = to_array(value)
    if not array.ndim:
        return [array.item()] * count
    if array.shape != (count,):
        raise InvalidArgumentError(
            f"{name} must be a scalar, or a vector of one value for each of {count} texts, "
            f"not of shape {brackets(array.shape)}"
        )
    listed: list[Any] = array.tolist()
    return listed


@kernel("SentencepieceOp", heavy=False)
async def sentencepiece(*, ctx: KernelContext, node: Node, model: bytes) -> SentencePieceModel:
    """The model of this container and name; the first node of a name brings the model.

    Raises InvalidArgumentError for what is no model, and FailedPreconditionError without the package. If the
    step is cancelled, there is no model yet.
    """
    attrs = node.attrs
    # A model without a shared name belongs to its content, too: two graphs may name their nodes alike.
    private = node.name if attrs["use_node_name_sharing"] else f"_private_{node.name}_{hash(model)}"
    where, name = resource_name(attrs["container"], attrs["shared_name"], private)
    return await loaded(ctx, where, name, lambda: model)


async def loaded(
    ctx: KernelContext, where: str, name: str, content: Callable[[], bytes]
) -> SentencePieceModel:
    """The model of this name, loaded on a thread if nobody has loaded it."""
    found = ctx.resources.find(where, name, SentencePieceModel)
    if found is not None:
        return found
    new = await trio.to_thread.run_sync(
        lambda: SentencePieceModel(content(), name, container=where), abandon_on_cancel=True
    )
    return ctx.resources.lookup_or_create(where, name, SentencePieceModel, lambda: new)


def _model(handle: Any) -> SentencePieceModel:
    if isinstance(handle, SentencePieceModel):
        return handle
    raise InvalidArgumentError(
        f"the handle of a SentencePiece model is wanted, not a {type(handle).__name__}"
    )


@kernel("SentencepieceVocabSizeOp", heavy=False)
def vocab_size(handle: Any) -> Any:
    """How many pieces the model has (int32, rank 0)."""
    return np.int32(_model(handle).size)


def _marked(
    model: SentencePieceModel, pieces: Sequence[Any], kind: type, bos: bool, eos: bool, reverse: bool
) -> list[Any]:
    """Pieces with marks around them, then reversed."""
    found = [
        *([model.beginning(kind)] if bos else ()),
        *pieces,
        *([model.end(kind)] if eos else ()),
    ]
    return found[::-1] if reverse else found


@kernel("SentencepieceTokenizeOp", fresh=True, heavy=_cost)
def tokenize(
    handle: Any,
    texts: Value,
    nbest_size: Value,
    alpha: Value,
    add_bos: Value,
    add_eos: Value,
    reverse: Value,
    *,
    out_type: DType,
    Tsplits: DType,
    return_nbest: bool,
) -> tuple[Value, Array]:
    """The pieces of all texts, and where those of each begin and end; of the best divisions if that is asked.

    nbest_size    of each text: 0 or 1 for the best division; one that is drawn for others
    alpha         how sharply drawing prefers the best ones
    reverse       the pieces come in reverse order, marks too
    """
    model, kind, listed = _model(handle), piece_kind(out_type), texts_of(texts)
    sizes = one_each(nbest_size, len(listed), "nbest_size")

    def pieces_of(asked: tuple[Any, ...]) -> list[list[Any]]:
        text, size, sharpness, *marks = asked
        if not return_nbest:
            return [_marked(model, model.encode(text, kind, size, sharpness), kind, *marks)]
        if size < 1:
            raise InvalidArgumentError(f"nbest_size must be at least 1 with return_nbest, not {size}")
        return [_marked(model, pieces, kind, *marks) for pieces in model.nbest(text, kind, size)]

    asked = _asked(listed, sizes, alpha, add_bos, add_eos, reverse)
    rows = list(chain.from_iterable(each(pieces_of, asked)))
    return piece_values(list(chain.from_iterable(rows)), kind), _splits(rows, Tsplits)


def _asked(
    texts: list[bytes], sizes: list[int], alpha: Value, add_bos: Value, add_eos: Value, reverse: Value
) -> list[tuple[Any, ...]]:
    """(text, nbest size, alpha, bos, eos, reverse) for each text."""
    count = len(texts)
    return list(
        zip(
            texts,
            sizes,
            one_each(alpha, count, "alpha"),
            one_each(add_bos, count, "add_bos"),
            one_each(add_eos, count, "add_eos"),
            one_each(reverse, count, "reverse"),
            strict=True,
        )
    )


def _splits(rows: Sequence[Sequence[Any]], dtype: DType) -> Array:
    splits = np.zeros(len(rows) + 1, dtype.as_numpy_dtype)
    np.cumsum(lengths_of(rows), out=splits[1:])
    return splits


@kernel("SentencepieceTokenizeWithOffsetsOp", fresh=True, heavy=_cost)
def tokenize_with_offsets(
    handle: Any,
    texts: Value,
    nbest_size: Value,
    alpha: Value,
    add_bos: Value,
    add_eos: Value,
    reverse: Value,
    *,
    out_type: DType,
    Tsplits: DType,
) -> tuple[Value, Array, Array, Array]:
    """As `tokenize`, and where the bytes of each piece begin and end in its text; 0 and 0 for marks."""
    model, kind, listed = _model(handle), piece_kind(out_type), texts_of(texts)

    def pieces_of(asked: tuple[Any, ...]) -> list[tuple[Any, int, int]]:
        text, size, sharpness, bos, eos, is_reversed = asked
        found = [
            *([(model.beginning(kind), 0, 0)] if bos else ()),
            *model.encode_with_offsets(text, kind, size, sharpness),
            *([(model.end(kind), 0, 0)] if eos else ()),
        ]
        return found[::-1] if is_reversed else found

    sizes = one_each(nbest_size, len(listed), "nbest_size")
    rows = each(pieces_of, _asked(listed, sizes, alpha, add_bos, add_eos, reverse))
    every = list(chain.from_iterable(rows))
    return (
        piece_values([piece for piece, _, _ in every], kind),
        _splits(rows, Tsplits),
        np.array([begin for _, begin, _ in every], np.int64),
        np.array([end for _, _, end in every], np.int64),
    )


@kernel("SentencepieceDetokenizeOp", fresh=True, heavy=_cost)
def detokenize(
    handle: Any,
    values: Value,
    splits: Array,
    add_bos: Value,
    add_eos: Value,
    reverse: Value,
    *,
    T: DType,
) -> Value:
    """The text of each row of pieces.

    Raises InvalidArgumentError for ids that the model lacks, and for splits that do not ascend within the
    pieces.
    """
    model, kind = _model(handle), piece_kind(T)
    pieces, ends = to_array(values).reshape(-1).tolist(), to_array(splits).reshape(-1).tolist()
    if any(end < start for start, end in pairwise(ends)) or (
        ends and (ends[0] < 0 or ends[-1] > len(pieces))
    ):
        raise InvalidArgumentError(
            f"input_splits must ascend within the {len(pieces)} values, but are {brackets(ends)}"
        )
    rows = [pieces[start:end] for start, end in pairwise(ends)]
    marks = [
        one_each(value, len(rows), name)
        for name, value in (("add_bos", add_bos), ("add_eos", add_eos), ("reverse", reverse))
    ]
    listed = list(zip(rows, *marks, strict=True))
    texts = each(lambda row: model.decode(_marked(model, row[0], kind, *row[1:])), listed)
    return strings_like(texts, (len(texts),))


@kernel("SentencepieceIdToStringOp", fresh=True)
def id_to_string(handle: Any, ids: Value) -> Value:
    """The piece of each id; InvalidArgumentError for an id that the model lacks."""
    array = to_array(ids)
    return strings_like(each(_model(handle).piece, array.reshape(-1).tolist()), array.shape)


@kernel("SentencepieceStringToIdOp", fresh=True)
def string_to_id(handle: Any, pieces: Value) -> Any:
    """The id of each piece (int32), that of the unknown piece for those that the model lacks."""
    return numbers_of(_model(handle), to_array(pieces))


def numbers_of(model: SentencePieceModel, pieces: Array) -> Any:
    return np.array(each(model.number, pieces.reshape(-1).tolist()), np.int32).reshape(pieces.shape)[()]
