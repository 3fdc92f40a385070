"""Connectionist temporal classification: labels of a sequence without their places (Graves et al. 2006).

Logits are (T, N, C) with time first, and the last class is the blank; `sequence_length` (N,) int32 has the
number of steps of each example. Labels are sparse, (N, L) of int32 in 0 ... C-2.

`beam_width` and `top_paths` are numbers of label sequences; `merge_repeated` makes one of equal neighbours.
Raises InvalidArgumentError for other shapes and types.

>>> graph = fe.Graph()
>>> logits = fe.log(graph.constant([[[0.6, 0.1, 0.3]], [[0.1, 0.7, 0.2]]]))
>>> lengths = graph.constant([2])
>>> parts = np.int64([[0, 0], [0, 1]]), [0, 1], np.int64([1, 2])
>>> labels = fe.embedding.SparseParts(*map(graph.constant, parts))
>>> greedy, beam = fe.ctc.greedy_decoder(logits, lengths), fe.ctc.beam_search_decoder(logits, lengths)
>>> fetches = [fe.ctc.loss(labels, logits, lengths), greedy.decoded[0].values, beam.decoded[0].values]
>>> values = fe.testing.evaluate(graph, [each.name for each in fetches])
>>> [np.round(value.astype(float), 3).tolist() for value in values]
[[0.868], [0.0, 1.0], [0.0, 1.0]]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from flowengine.client.embedding import SparseParts
from flowengine.core.public_names.missing import public_module
from flowengine.graphs.conversion import convert, graph_of
from flowengine.graphs.tensor import Tensor


class CTCDecoded(NamedTuple):
    """The result of a decoder.

    decoded           the best paths, best first: each sparse, (N, L) int64
    log_probability   (N, number of paths); of `greedy_decoder` (N, 1), the negative sum of the logits

    >>> graph = fe.Graph()
    >>> logits = graph.constant([[[9.0, 0.0, 0.0]], [[0.0, 9.0, 0.0]]])  # (T, N, C), the last class is blank
    >>> result = fe.ctc.greedy_decoder(logits, [2])
    >>> fe.testing.evaluate(graph, [result.decoded[0].values.name])[0].tolist()
    [0, 1]
    """

    decoded: list[SparseParts]
    log_probability: Tensor


def loss(
    labels: Any,
    logits: Any,
    sequence_length: Any,
    *,
    preprocess_collapse_repeated: bool = False,
    merge_repeated: bool = True,
    ignore_longer_outputs_than_inputs: bool = False,
    time_major: bool = True,
    name: str | None = None,
) -> Tensor:
    """Compute the negative log probability of the labels over all alignments: (N,) of the type of logits.

    labels                              sparse (`.indices`, `.values`, `.dense_shape`), int32
    logits                              (T, N, C), or (N, T, C) where time_major is False
    preprocess_collapse_repeated        repeated labels are taken for one
    merge_repeated                      repeated predictions between blanks count for one label
    ignore_longer_outputs_than_inputs   a sequence too short for its labels costs 0; else it is an
                                        InvalidArgumentError of the run
    """
    graph = graph_of(logits, labels.values)
    ops = graph.ops
    inputs = convert(graph, logits)
    if not time_major:
        inputs = ops.Transpose(inputs, [1, 0, 2])
    found = ops.CTCLoss(
        inputs,
        labels.indices,
        labels.values,
        convert(graph, sequence_length),
        preprocess_collapse_repeated=preprocess_collapse_repeated,
        ctc_merge_repeated=merge_repeated,
        ignore_longer_outputs_than_inputs=ignore_longer_outputs_than_inputs,
        name=name or "CTCLoss",
    )
    result: Tensor = found.loss
    return result


def greedy_decoder(
    logits: Any, sequence_length: Any, *, merge_repeated: bool = True, name: str | None = None
) -> CTCDecoded:
    """Return the likeliest class of each step, repeated ones merged, blanks left out.

    Logits (T, N, C) of floats; paths are int64. Raises InvalidArgumentError where shapes do not fit; a
    length above T is one of the run. Graves and others 2006, section 3.2.
    """
    graph = graph_of(logits)
    made = graph.ops.CTCGreedyDecoder(
        convert(graph, logits),
        convert(graph, sequence_length),
        merge_repeated=merge_repeated,
        name=name or "CTCGreedyDecoder",
    )
    path = SparseParts(made.decoded_indices, made.decoded_values, made.decoded_shape)
    return CTCDecoded([path], made.log_probability)


def beam_search_decoder(
    logits: Any,
    sequence_length: Any,
    *,
    beam_width: int = 100,
    top_paths: int = 1,
    merge_repeated: bool = False,
    name: str | None = None,
) -> CTCDecoded:
    """Return the likeliest label sequences, found with a beam: `top_paths` of at most `beam_width`.

    Logits (T, N, C) of floats; paths are int64. Raises InvalidArgumentError where shapes do not fit, or
    `top_paths` is above `beam_width`. Graves 2012, section 7.5.
    """
    graph = graph_of(logits)
    made = graph.ops.CTCBeamSearchDecoder(
        convert(graph, logits),
        convert(graph, sequence_length),
        beam_width=beam_width,
        top_paths=top_paths,
        merge_repeated=merge_repeated,
        name=name or "CTCBeamSearchDecoder",
    )
    indices, values, shapes, probability = made
    paths = [SparseParts(*each) for each in zip(indices, values, shapes, strict=True)]
    return CTCDecoded(paths, probability)


__all__ = ["CTCDecoded", "beam_search_decoder", "greedy_decoder", "loss"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
