"""Recurrent nets: cells, loops that run them over sequences, attention, and decoders.

    cell = fe.rnn.MultiRNNCell([fe.rnn.LSTMCell(128), fe.rnn.LSTMCell(128)])
    outputs, state = fe.rnn.dynamic_rnn(cell, words, sequence_length=lengths)

Names of variables are TensorFlow 1's: `rnn/multi_rnn_cell/cell_0/lstm_cell/kernel`.
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
