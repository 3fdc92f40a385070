"""Decoders of connectionist temporal classification: the best class at each time, or the best beams.

Both give, for each of their paths, a sparse matrix (batch, time) of labels. The greedy decoder is array
work; a beam search goes from step to step, with the arithmetic of each step over all beams and classes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.nn.beam_search import Beams
from flowengine.kernels.registry import kernel

HOST: Final = "results are as long as values tell; TensorFlow has no GPU kernel"


def _check(inputs: Array, sequence_length: Array) -> None:
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor, but has shape {brackets(inputs.shape)}")
    if not inputs.size:
        raise InvalidArgumentError(f"inputs must not be empty, but has shape {brackets(inputs.shape)}")
    if sequence_length.ndim != 1:
        raise InvalidArgumentError(
            f"sequence_length is not a vector, but has shape {brackets(sequence_length.shape)}"
        )
    steps, batch, _ = inputs.shape
    if sequence_length.shape[0] != batch:
        raise FailedPreconditionError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {sequence_length.shape[0]} "
            f"batch_size: {batch}"
        )
    for b, length in enumerate(sequence_length.tolist()):
        if length > steps:
            raise FailedPreconditionError(f"sequence_length({b}) <= {steps}, but is {length}")


def _sparse(kept: Array, labels: Array) -> tuple[Any, Any, Any]:
    """(B, T) labels where `kept` says so -> indices, values and shape of the sparse matrix of them."""
    counts = kept.sum(1)
    rows, _ = np.nonzero(kept)
    starts = np.cumsum(counts) - counts
    places = np.arange(rows.size) - starts[rows]
    shape = np.array([kept.shape[0], counts.max(initial=0)], np.int64)
    return np.stack([rows, places], axis=1).astype(np.int64), labels[kept].astype(np.int64), shape


def _best(inputs: Array) -> tuple[Any, Any]:
    """(T, B) the first greatest class, and its value; a NaN counts in the first class only."""
    if np.isnan(inputs).any():
        inputs = np.where(np.isnan(inputs), -np.inf, inputs)
        first = np.isnan(inputs[..., 0])
        best = np.where(first, 0, inputs.argmax(-1))
    else:
        best = inputs.argmax(-1)
    return best, np.take_along_axis(inputs, best[..., None], -1)[..., 0]


@kernel("CTCGreedyDecoder", fresh=True, device="CPU")
def ctc_greedy_decoder(
    inputs: Array, sequence_length: Array, *, merge_repeated: bool, blank_index: int
) -> Any:
    """The best class of each time (T, B, C), blanks left out and, where wanted, what repeats itself.

    Returns one sparse matrix, and the negative sum of the best logits, (B, 1).
    """
    _check(inputs, sequence_length)
    steps, _, classes = inputs.shape
    blank = blank_index + classes if blank_index < 0 else blank_index
    if not 0 <= blank < classes:
        raise InvalidArgumentError(
            f"blank_index expected to be between {-classes} and {classes - 1} but was {blank_index}"
        )
    best, value = _best(inputs)
    during = np.arange(steps)[:, None] < sequence_length
    kept = during & (best != blank)
    if merge_repeated:
        kept[1:] &= best[1:] != best[:-1]
    log_probability = np.negative(np.where(during, value, inputs.dtype.type(0)).sum(0))[:, None]
    return *_sparse(kept.T, best.T), log_probability + inputs.dtype.type(0)


def _ragged(rows: Sequence[Sequence[int]]) -> tuple[Any, Any, Any]:
    """Sequences of labels -> indices, values and shape of a sparse matrix."""
    indices = [(b, place) for b, row in enumerate(rows) for place in range(len(row))]
    values = [label for row in rows for label in row]
    shape = [len(rows), max(map(len, rows), default=0)]
    return (
        np.array(indices, np.int64).reshape(-1, 2),
        np.array(values, np.int64),
        np.array(shape, np.int64),
    )


def _decoded(inputs: Array, lengths: list[int], width: int, paths: int, merges: bool) -> Iterator[Any]:
    """For each row of the batch its best paths and their logarithms."""
    for b, length in enumerate(lengths):
        beams = Beams(inputs.shape[-1], width, inputs.dtype)
        for logits in inputs[: max(length, 0), b]:
            beams.step(logits)
        yield beams.best(paths, merges)


@kernel("CTCBeamSearchDecoder", fresh=True, device="CPU")
def ctc_beam_search_decoder(
    inputs: Array, sequence_length: Array, *, beam_width: int, top_paths: int, merge_repeated: bool
) -> Any:
    """The most probable paths of logits (T, B, C): a sparse matrix each, and logarithms (B, top_paths)."""
    _check(inputs, sequence_length)
    if top_paths > beam_width:
        raise InvalidArgumentError(
            f"requested more paths than the beam width: {top_paths} with a width of {beam_width}"
        )
    found = list(_decoded(inputs, sequence_length.tolist(), beam_width, top_paths, merge_repeated))
    matrices = [_ragged([paths[p] for paths, _ in found]) for p in range(top_paths)]
    log_probability = np.array([values for _, values in found], inputs.dtype)
    return *(part for parts in zip(*matrices, strict=True) for part in parts), log_probability
