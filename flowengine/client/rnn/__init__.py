"""Recurrent nets: cells, loops that run them over sequences, attention, and decoders.

`units` is the size of an output, `activation` a function of a Tensor, `forget_bias` is added to the forget
gate; `inputs` are (N, T, I), or (T, N, I) if `time_major`, `sequence_length` (N,) int32. `memory` (N, S, M)
is attended to, `memory_sequence_length` (N,) of it. `table` (V, D) has embeddings, `start_tokens` are (N,)
int32 and `end_token` is a number; `output_units`, `use_bias` and `projection_name` describe a projection of
outputs to logits. `parallel_iterations` and `swap_memory` are those of `flowengine.Graph.while_loop`. Names
of variables are TensorFlow 1's: `rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`. Raises InvalidArgumentError for
shapes and types that do not fit.

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
>>> table, starts = fe.ones([100, 16], graph=graph), fe.zeros([8], "int32", graph=graph)
>>> with graph.variable_scope("greedy"):
...     greedy = rnn.GreedyEmbeddingHelper(table, starts, end_token=1)
...     plain = rnn.GRUCell(32)
...     decoder = rnn.BasicDecoder(plain, greedy, plain.zero_state(graph, 8), output_units=100)
...     rnn.dynamic_decode(decoder, maximum_iterations=10)[0].sample_ids.shape
TensorShape([8, None])
>>> with graph.variable_scope("beam"):
...     start = rnn.tile_batch(plain.zero_state(graph, 8), 4)
...     beam = rnn.BeamSearchDecoder(plain, table, starts, 1, start, beam_width=4, output_units=100)
...     rnn.dynamic_decode(beam, maximum_iterations=10)[0].predicted_ids.shape
TensorShape([8, None, 4])
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
