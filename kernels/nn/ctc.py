"""Connectionist temporal classification: its loss and its decoders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.kernels.common.array_args import brackets
from flowengine.kernels.nn.beam_search import Beams
from flowengine.kernels.registry import kernel

# The loss of connectionist temporal classification, and its gradient.
#
# A sequence of labels is written with a blank around each of them: the *path*. A class is read at each time
# step; the path may stay where it is, go on by one place, or skip a blank between different labels. The
# loss
# is the negative logarithm of the probability of all ways through the path (Graves, "Supervised sequence
# labelling with recurrent neural networks", 2008, chapter 7). Ways up to a time and ways from a time on are
# the same recursion, once over the sequences and once over their mirror images, so both run as one batch.


def _check(inputs: Array, indices: Array, values: Array, lengths: Array) -> None:
    if inputs.ndim != 3:
        raise InvalidArgumentError(f"inputs is not a 3-Tensor, but has shape {brackets(inputs.shape)}")
    for name, vector in (("sequence_length", lengths), ("labels_values", values)):
        if vector.ndim != 1:
            raise InvalidArgumentError(f"{name} is not a vector, but has shape {brackets(vector.shape)}")
    if indices.ndim != 2 or indices.shape[1] != 2:
        raise InvalidArgumentError(
            f"labels_indices is not a matrix of two columns, but has shape {brackets(indices.shape)}"
        )
    steps, batch, classes = inputs.shape
    if batch != lengths.shape[0]:
        raise InvalidArgumentError(
            f"len(sequence_length) != batch_size.  len(sequence_length):  {lengths.shape[0]} "
            f"batch_size: {batch}"
        )
    if indices.shape[0] != values.shape[0]:
        raise InvalidArgumentError(
            "labels_indices and labels_values must contain the same number of rows, but saw shapes: "
            f"{brackets(indices.shape)} vs. {brackets(values.shape)}"
        )
    if not batch or not steps or not classes:
        raise InvalidArgumentError(
            f"batch_size, time and classes must not be 0: inputs has shape {brackets(inputs.shape)}"
        )


def _rows(indices: Array, values: Array, batch: int) -> list[list[int]]:
    """The labels of each row of a sparse matrix whose indices are in order."""
    places = indices.tolist()
    width = max([place for _, place in places if place >= 0], default=-1) + 1
    rows: list[list[int]] = [[] for _ in range(batch)]
    before = [-1, -1]
    for i, (index, value) in enumerate(zip(places, values.tolist(), strict=True)):
        fault = ""
        if not (0 <= index[0] < batch and 0 <= index[1] < width):
            fault = f"is out of bounds: need 0 <= index < [{batch},{width}]"
        elif index == before:
            fault = "is repeated"
        elif index < before:
            fault = "is out of order. Many sparse ops require sorted indices."
        if fault:
            raise InvalidArgumentError(
                f"label SparseTensor is not valid: indices[{i}] = {brackets(index)} {fault}"
            )
        rows[index[0]].append(value)
        before = index
    return rows


def _lengths(sequence_length: Array, steps: int) -> list[int]:
    lengths: list[int] = sequence_length.tolist()
    for b, length in enumerate(lengths):
        if length > steps:
            raise InvalidArgumentError(f"sequence_length({b}) <= {steps}, but is {length}")
        if length < 0:
            raise InvalidArgumentError(f"seq_len({b}) < 0: {length}")
    return lengths


def _target(row: list[int], b: int, classes: int, *, collapse: bool) -> list[int]:
    """The labels of a row up to the first blank, repetitions left out where they are to be."""
    if not row:
        raise InvalidArgumentError(f"Labels length is zero in batch {b}")
    target: list[int] = []
    ended = False
    for i, label in enumerate(row):
        if collapse and i and label == row[i - 1]:
            continue
        if label >= classes - 1:
            ended = True
        elif ended:
            raise InvalidArgumentError(
                "Saw a non-null label (index >= num_classes - 1) following a null label, "
                f"batch: {b} num_classes: {classes} labels: {row}"
            )
        else:
            target.append(label)
    if target and min(target) < 0:
        raise InvalidArgumentError(f"All labels must be nonnegative integers, batch: {b} labels: {target}")
    return target


def _targets(
    rows: list[list[int]], lengths: list[int], classes: int, *, collapse: bool, ignore_longer: bool
) -> list[list[int]]:
    targets = []
    for b, (row, length) in enumerate(zip(rows, lengths, strict=True)):
        targets.append(_target(row, b, classes, collapse=collapse))
        if len(row) > length and not ignore_longer:
            raise InvalidArgumentError(
                f"Not enough time for target transition sequence (required: {len(row)}, available: {length}) "
                f"in batch {b}. You can turn this error into a warning by using the flag "
                "ignore_longer_outputs_than_inputs"
            )
    return targets


def _ways(xp: Any, steps: Array, stay: Array | None, skip: Array) -> Any:
    """Logarithms (T, N, U) of the ways that end in each place of a path at each time.

    steps       (T, N, U) logarithms of the probability of each place's class
    stay, skip  (N, U) what is added for staying, None for nothing, and for coming from two places before:
                0 or minus infinity
    """
    times, count, places = steps.shape
    lowest = np.finfo(steps.dtype).min
    result = xp.empty_like(steps)
    #: Two places that nothing comes from stand in front, so that what came from before is a view.
    previous = xp.full((count, places + 2), -np.inf, steps.dtype)
    previous[:, 2:4] = steps[0, :, :2]
    result[0] = previous[:, 2:]
    terms = xp.empty((3, count, places), steps.dtype)
    for t in range(1, times):
        terms[0] = previous[:, 2:] if stay is None else previous[:, 2:] + stay
        terms[1] = previous[:, 1:-1]
        terms[2] = previous[:, :-2] + skip
        greatest = xp.maximum(terms.max(0), lowest)
        terms -= greatest
        previous[:, 2:] = xp.log(xp.exp(terms).sum(0)) + greatest + steps[t]
        result[t] = previous[:, 2:]
    return result


class _Paths:
    """The paths of a batch, padded to the longest, and where their mirror images lie.

    path    (B, U) classes          within  (B, U) whether a place belongs to the path
    during  (T, B) whether a time belongs to the sequence
    times, places                   indices (T, B, U) of what a mirror image takes
    """

    def __init__(self, xp: Any, targets: list[list[int]], lengths: list[int], steps: int, blank: int) -> None:
        longest = 2 * max(map(len, targets)) + 1
        padded = []
        for target in targets:
            row = [blank] * longest
            row[1 : 2 * len(target) : 2] = target
            padded.append(row)
        self.path = xp.array(padded, np.int64)
        ends = xp.array([2 * len(target) + 1 for target in targets], np.int64)[:, None]
        last = xp.array(lengths, np.int64)
        place, time = xp.arange(longest), xp.arange(steps)[:, None]
        self.within = place < ends
        self.during = time < last
        self.rows = xp.arange(len(targets))[:, None]
        self.times = xp.maximum(last - 1 - time, 0)[:, :, None]
        self.places = xp.maximum(ends - 1 - place, 0)[None]

    def mirrored(self, xp: Any, values: Array) -> Any:
        """(T, B, U) with each sequence and its path from the end to the beginning."""
        return xp.where(self.within, values[self.times, self.rows[None], self.places], -np.inf)

    def biases(self, xp: Any, dtype: Any, blank: int, merges: bool) -> tuple[Any, Any]:
        """Return the costs of staying (None: nothing) and of skipping in each place."""
        path, nothing = self.path, dtype.type(-np.inf)
        labels = path != blank
        skips = xp.zeros(path.shape, np.bool_)
        skips[:, 2:] = labels[:, 2:] & (path[:, 2:] != path[:, :-2]) if merges else labels[:, 2:]
        stays = None if merges else xp.where(labels, nothing, dtype.type(0))
        return stays, xp.where(skips, dtype.type(0), nothing)


def _shares(xp: Any, paths: _Paths, probability: Array, *, blank: int, merges: bool) -> tuple[Any, Any]:
    """(B,) logarithms of the probability of all ways, (T, B, U) each place's share of them at each time."""
    steps = xp.where(paths.within, xp.log(probability[:, paths.rows, paths.path]), -np.inf)
    stay, skip = paths.biases(xp, steps.dtype, blank, merges)
    mirror = _mirror_biases(xp, paths, stay, skip)
    both = xp.concatenate([steps, paths.mirrored(xp, steps)], axis=1)
    ways = _ways(xp, both, *mirror)
    count = steps.shape[1]
    onward = paths.mirrored(xp, ways[:, count:])
    # Both have the place's own probability.
    total = xp.where(steps > -np.inf, ways[:, :count] + onward - steps, -np.inf)
    first = total[0]
    greatest = xp.maximum(first.max(-1), np.finfo(steps.dtype).min)
    log_probability = xp.log(xp.exp(first - greatest[:, None]).sum(-1)) + greatest
    known = (log_probability > -np.inf) & paths.during
    shares = xp.where(known[:, :, None], xp.exp(total - log_probability[:, None]), 0)
    return log_probability, shares


def _mirror_biases(xp: Any, paths: _Paths, stay: Any, skip: Any) -> tuple[Any, Any]:
    """The biases of all paths, then of their mirror images: who skips from u - 2 to u skips back."""
    ahead = xp.full(skip.shape, -np.inf, skip.dtype)
    ahead[:, :-2] = skip[:, 2:]
    rows, places = paths.rows, paths.places[0]
    if stay is not None:
        stay = xp.concatenate([stay, stay[rows, places]])
    return stay, xp.concatenate([skip, ahead[rows, places]])


def _cost(inputs: Array, indices: Array, values: Array, lengths: Array) -> float:
    return inputs.size * 0.02 + inputs.shape[0] * (20.0 + values.size * 0.05) if inputs.ndim else 1.0


@kernel(
    "CTCLoss",
    fresh=True,
    heavy=_cost,
    host=("labels_indices", "labels_values", "sequence_length"),
)
def ctc_loss(
    xp: Any,
    inputs: Array,
    labels_indices: Array,
    labels_values: Array,
    sequence_length: Array,
    *,
    preprocess_collapse_repeated: bool,
    ctc_merge_repeated: bool,
    ignore_longer_outputs_than_inputs: bool,
) -> Any:
    """The loss (B,) of sequences of logits (T, B, C) with sparse labels, and its gradient (T, B, C).

    The last class is the blank. A row without time, or with more labels than time where that is allowed,
    has no loss and no gradient.
    """
    _check(inputs, labels_indices, labels_values, sequence_length)
    steps, batch, classes = inputs.shape
    rows = _rows(labels_indices, labels_values, batch)
    lengths = _lengths(sequence_length, steps)
    targets = _targets(
        rows,
        lengths,
        classes,
        collapse=preprocess_collapse_repeated,
        ignore_longer=ignore_longer_outputs_than_inputs,
    )
    counted = [length >= max(len(row), 1) for row, length in zip(rows, lengths, strict=True)]
    lengths = [length if counts else 0 for length, counts in zip(lengths, counted, strict=True)]
    blank = classes - 1
    paths = _Paths(xp, targets, lengths, steps, blank)
    probability = xp.exp(inputs - inputs.max(-1, keepdims=True))
    probability /= probability.sum(-1, keepdims=True)
    log_probability, shares = _shares(xp, paths, probability, blank=blank, merges=ctc_merge_repeated)
    gradient = xp.where(paths.during[:, :, None], probability, 0)
    gradient[:, :, blank] -= shares[:, :, 0::2].sum(-1)
    # A class may stand in several places of a path, so that places are taken one by one.
    row = paths.rows[:, 0]
    for place in range(1, paths.path.shape[1], 2):
        gradient[:, row, paths.path[:, place]] -= shares[:, :, place]
    loss = xp.where(xp.array(counted), -log_probability, 0).astype(inputs.dtype)
    return loss, gradient.astype(inputs.dtype)


# Decoders of connectionist temporal classification: the best class at each time, or the best beams.
#
# Both give, for each of their paths, a sparse matrix (batch, time) of labels. The greedy decoder is array
# work; a beam search goes from step to step, with the arithmetic of each step over all beams and classes.

HOST: Final = "results are as long as values tell; TensorFlow has no GPU kernel"


def _check_inputs(inputs: Array, sequence_length: Array) -> None:
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
    _check_inputs(inputs, sequence_length)
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
    _check_inputs(inputs, sequence_length)
    if top_paths > beam_width:
        raise InvalidArgumentError(
            f"requested more paths than the beam width: {top_paths} with a width of {beam_width}"
        )
    found = list(_decoded(inputs, sequence_length.tolist(), beam_width, top_paths, merge_repeated))
    matrices = [_ragged([paths[p] for paths, _ in found]) for p in range(top_paths)]
    log_probability = np.array([values for _, values in found], inputs.dtype)
    return *(part for parts in zip(*matrices, strict=True) for part in parts), log_probability
