"""Recurrent nets: cells, loops that run them over sequences, attention, and decoders.

`units` is the size of an output, `activation` a function of a Tensor, `forget_bias` is added to the forget
gate; `kernel_initializer`, `bias_initializer` and `initializer` are those of `flowengine.Graph.variable`,
`default_name` is the scope of a cell without a name. `inputs` are (N, T, I), or (T, N, I) if `time_major`,
`sequence_length` (N,) int32; `initial_state` and `state` have the structure of a cell's `state_size`.
`memory` (N, S, M) is attended to, `memory_sequence_length` (N,) of it, by a `query` (N, D) of a `mechanism`.
`table` (V, D) has embeddings, `start_tokens` are (N,) int32 and `end_token` is a number; `output_units`,
`use_bias` and `projection_name` describe a projection of outputs to logits. `temperature` divides logits,
`seed` is that of random numbers. `parallel_iterations` and `swap_memory` are those of
`flowengine.Graph.while_loop`. Names of variables are TensorFlow 1's:
`rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`. Raises InvalidArgumentError for shapes and types that do not
fit.

`cell_forward` and `cell_backward`, with `initial_state_forward` and `initial_state_backward`, run in both
directions; `multiplier` repeats examples; keep probabilities are above 0 and at most 1, and
`variational_recurrent` draws once for all steps; `norm_gain` and `norm_shift` start the normalisation.

>>> rnn, graph = fe.rnn, fe.Graph()
>>> words, lengths = graph.placeholder("float32", [8, 20, 16]), graph.placeholder("int32", [8])
>>> cell = rnn.MultiRNNCell([rnn.DropoutWrapper(rnn.LSTMCell(32), output_keep_prob=0.9), rnn.LSTMCell(32)])
>>> outputs, state = rnn.dynamic_rnn(cell, words, sequence_length=lengths)
>>> outputs.shape, state[-1].h.shape
(TensorShape([8, 20, 32]), TensorShape([8, 32]))
>>> both, states = rnn.bidirectional_dynamic_rnn(rnn.GRUCell(8), rnn.GRUCell(8), words)
>>> fe.concat(both, axis=2).shape
TensorShape([8, 20, 16])
>>> others = [rnn.BasicRNNCell(16), rnn.BasicLSTMCell(16), rnn.LayerNormLSTMCell(16)]
>>> others += [rnn.ResidualWrapper(rnn.GRUCell(16)), rnn.DeviceWrapper(rnn.GRUCell(16), "/cpu:0")]
>>> for number, each in enumerate(others):
...     with graph.variable_scope(f"other_{number}"):
...         outputs_of_other, state_of_other = rnn.dynamic_rnn(each, words)
>>> with graph.variable_scope("decoder"):
...     attending = rnn.AttentionWrapper(rnn.GRUCell(32), rnn.LuongAttention(32, outputs, lengths))
...     helper = rnn.TrainingHelper(words, lengths)
...     decoder = rnn.BasicDecoder(attending, helper, attending.zero_state(graph, 8), output_units=100)
...     found, last, found_lengths = rnn.dynamic_decode(decoder)
>>> found.logits.shape, last.attention.shape
(TensorShape([8, None, 100]), TensorShape([8, 32]))
>>> additive = rnn.BahdanauAttention(32, outputs, lengths)
>>> additive.units
32
>>> table, starts = fe.ones([100, 16], graph=graph), fe.zeros([8], "int32", graph=graph)
>>> plain = rnn.GRUCell(32)
>>> for helper in (rnn.GreedyEmbeddingHelper(table, starts, 1), rnn.SampleEmbeddingHelper(table, starts, 1)):
...     with graph.variable_scope("words", reuse="auto"):
...         decoder = rnn.BasicDecoder(plain, helper, plain.zero_state(graph, 8), output_units=100)
...         rnn.dynamic_decode(decoder, maximum_iterations=10)[0].sample_ids.shape
TensorShape([8, None])
TensorShape([8, None])
>>> with graph.variable_scope("beam"):
...     start = rnn.tile_batch(plain.zero_state(graph, 8), 4)
...     beam = rnn.BeamSearchDecoder(plain, table, starts, 1, start, beam_width=4, output_units=100)
...     rnn.dynamic_decode(beam, maximum_iterations=10)[0].predicted_ids.shape
TensorShape([8, None, 4])
>>> def loop_fn(time, output, state, loop_state):
...     first = state is None
...     state = rnn.GRUCell(16).zero_state(graph, 8) if first else state
...     return rnn.RawStep(time >= fe.identity(lengths), words[:, 0], state, output, None)
>>> with graph.variable_scope("raw"):
...     array, final, nothing = rnn.raw_rnn(rnn.GRUCell(16), loop_fn, graph=graph)
>>> final.shape
TensorShape([8, 16])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.client.rnn.attention import (
    AlignmentHistory,
    AttentionMechanism,
    AttentionState,
    AttentionWrapper,
    BahdanauAttention,
    LuongAttention,
)
from flowengine.client.rnn.beam_search import (
    BeamSearchDecoder,
    BeamSearchOutput,
    BeamSearchState,
    BeamStep,
    tile_batch,
)
from flowengine.client.rnn.cell import RNNCell
from flowengine.client.rnn.cells import (
    BasicLSTMCell,
    BasicRNNCell,
    GRUCell,
    LayerNormLSTMCell,
    LSTMCell,
    LSTMStateTuple,
)
from flowengine.client.rnn.decoder import (
    BasicDecoder,
    Decoder,
    DecoderOutput,
    GreedyEmbeddingHelper,
    Helper,
    OutputSpec,
    SampleEmbeddingHelper,
    TrainingHelper,
    dynamic_decode,
)
from flowengine.client.rnn.dynamic import RawStep, bidirectional_dynamic_rnn, dynamic_rnn, raw_rnn
from flowengine.client.rnn.wrappers import DeviceWrapper, DropoutWrapper, MultiRNNCell, ResidualWrapper
from flowengine.core.public_names.missing import public_module

__all__ = [
    "AlignmentHistory",
    "AttentionMechanism",
    "AttentionState",
    "AttentionWrapper",
    "BahdanauAttention",
    "BasicDecoder",
    "BasicLSTMCell",
    "BasicRNNCell",
    "BeamSearchDecoder",
    "BeamSearchOutput",
    "BeamSearchState",
    "BeamStep",
    "Decoder",
    "DecoderOutput",
    "DeviceWrapper",
    "DropoutWrapper",
    "GRUCell",
    "GreedyEmbeddingHelper",
    "Helper",
    "LSTMCell",
    "LSTMStateTuple",
    "LayerNormLSTMCell",
    "LuongAttention",
    "MultiRNNCell",
    "OutputSpec",
    "RNNCell",
    "RawStep",
    "ResidualWrapper",
    "SampleEmbeddingHelper",
    "TrainingHelper",
    "bidirectional_dynamic_rnn",
    "dynamic_decode",
    "dynamic_rnn",
    "raw_rnn",
    "tile_batch",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
