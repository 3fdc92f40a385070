"""Fused recurrent cells."""

from __future__ import annotations

from collections.abc import Sequence

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import (
    dims_of,
    divide_dim,
    merge,
    merge_dims,
    multiply_dims,
    ranked,
    vector,
)


def block_lstm(c: ShapeContext) -> Sequence[TensorShape]:
    """x (time, batch, inputs), b (4 * cells) -> seven of (time, batch, cells)"""
    time, batch, _ = dims_of(ranked(c, 1, 3), 3)
    cells = divide_dim(ranked(c, 8, 1)[0], 4, "The length of the bias")
    return [TensorShape([time, batch, cells])] * c.num_outputs


define(
    "BlockLSTM",
    inputs=[
        "seq_len_max: int64",
        "x: T",
        "cs_prev: T",
        "h_prev: T",
        "w: T",
        "wci: T",
        "wcf: T",
        "wco: T",
        "b: T",
    ],
    outputs=["i: T", "cs: T", "f: T", "o: T", "ci: T", "co: T", "h: T"],
    attrs=[
        "forget_bias: float = 1.0",
        "cell_clip: float = 3.0",
        "use_peephole: bool = false",
        "T: {half, float}",
    ],
    shape=block_lstm,
)
define(
    "BlockLSTMV2",
    inputs=[
        "seq_len_max: int64",
        "x: T",
        "cs_prev: T",
        "h_prev: T",
        "w: T",
        "wci: T",
        "wcf: T",
        "wco: T",
        "b: T",
    ],
    outputs=["i: T", "cs: T", "f: T", "o: T", "ci: T", "co: T", "h: T"],
    attrs=["cell_clip: float = 0.0", "use_peephole: bool = false", "T: {half, float}"],
    shape=block_lstm,
)


def block_lstm_grad(c: ShapeContext) -> Sequence[TensorShape]:
    """A gradient for each input but the first, shaped like it."""
    return [c.input(i + 1) for i in range(c.num_outputs)]


define(
    "BlockLSTMGrad",
    inputs=[
        "seq_len_max: int64",
        "x: T",
        "cs_prev: T",
        "h_prev: T",
        "w: T",
        "wci: T",
        "wcf: T",
        "wco: T",
        "b: T",
        "i: T",
        "cs: T",
        "f: T",
        "o: T",
        "ci: T",
        "co: T",
        "h: T",
        "cs_grad: T",
        "h_grad: T",
    ],
    outputs=[
        "x_grad: T",
        "cs_prev_grad: T",
        "h_prev_grad: T",
        "w_grad: T",
        "wci_grad: T",
        "wcf_grad: T",
        "wco_grad: T",
        "b_grad: T",
    ],
    attrs=["use_peephole: bool", "T: {half, float}"],
    shape=block_lstm_grad,
)
define(
    "BlockLSTMGradV2",
    inputs=[
        "seq_len_max: int64",
        "x: T",
        "cs_prev: T",
        "h_prev: T",
        "w: T",
        "wci: T",
        "wcf: T",
        "wco: T",
        "b: T",
        "i: T",
        "cs: T",
        "f: T",
        "o: T",
        "ci: T",
        "co: T",
        "h: T",
        "cs_grad: T",
        "h_grad: T",
    ],
    outputs=[
        "x_grad: T",
        "cs_prev_grad: T",
        "h_prev_grad: T",
        "w_grad: T",
        "wci_grad: T",
        "wcf_grad: T",
        "wco_grad: T",
        "b_grad: T",
    ],
    attrs=["use_peephole: bool", "T: {half, float}"],
    shape=block_lstm_grad,
)


def lstm_cell(c: ShapeContext) -> Sequence[TensorShape]:
    """x (batch, inputs), cs_prev (batch, cells) -> seven of (batch, cells)"""
    batch = merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 2)[0], "The batches of input and state")
    return [TensorShape([batch, ranked(c, 1, 2)[1]])] * c.num_outputs


define(
    "LSTMBlockCell",
    inputs=["x: T", "cs_prev: T", "h_prev: T", "w: T", "wci: T", "wcf: T", "wco: T", "b: T"],
    outputs=["i: T", "cs: T", "f: T", "o: T", "ci: T", "co: T", "h: T"],
    attrs=[
        "forget_bias: float = 1.0",
        "cell_clip: float = 3.0",
        "use_peephole: bool = false",
        "T: {half, float}",
    ],
    shape=lstm_cell,
)


def lstm_cell_grad(c: ShapeContext) -> Sequence[TensorShape]:
    batch, cells = dims_of(ranked(c, 1, 2), 2)
    peephole = vector(cells)
    gates = TensorShape([batch, multiply_dims(cells, 4)])
    return [TensorShape([batch, cells]), gates, peephole, peephole, peephole]


define(
    "LSTMBlockCellGrad",
    inputs=[
        "x: T",
        "cs_prev: T",
        "h_prev: T",
        "w: T",
        "wci: T",
        "wcf: T",
        "wco: T",
        "b: T",
        "i: T",
        "cs: T",
        "f: T",
        "o: T",
        "ci: T",
        "co: T",
        "cs_grad: T",
        "h_grad: T",
    ],
    outputs=["cs_prev_grad: T", "dicfo: T", "wci_grad: T", "wcf_grad: T", "wco_grad: T"],
    attrs=["use_peephole: bool", "T: {half, float}"],
    shape=lstm_cell_grad,
)


def gru_cell(c: ShapeContext) -> Sequence[TensorShape]:
    """x (batch, inputs), h_prev (batch, cells) -> four of (batch, cells)"""
    batch = merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 2)[0], "The batches of input and state")
    return [TensorShape([batch, ranked(c, 1, 2)[1]])] * c.num_outputs


define(
    "GRUBlockCell",
    inputs=["x: T", "h_prev: T", "w_ru: T", "w_c: T", "b_ru: T", "b_c: T"],
    outputs=["r: T", "u: T", "c: T", "h: T"],
    attrs=["T: {float}"],
    shape=gru_cell,
)


def gru_cell_grad(c: ShapeContext) -> Sequence[TensorShape]:
    batch, cells = dims_of(ranked(c, 1, 2), 2)
    state = TensorShape([batch, cells])
    return [ranked(c, 0, 2), state, state, TensorShape([batch, multiply_dims(cells, 2)])]


define(
    "GRUBlockCellGrad",
    inputs=["x: T", "h_prev: T", "w_ru: T", "w_c: T", "b_ru: T", "b_c: T", "r: T", "u: T", "c: T", "d_h: T"],
    outputs=["d_x: T", "d_h_prev: T", "d_c_bar: T", "d_r_bar_u_bar: T"],
    attrs=["T: {float}"],
    shape=gru_cell_grad,
)


def gather_tree(c: ShapeContext) -> Sequence[TensorShape]:
    """steps and parents (time, batch, beams) -> beams of that shape"""
    ranked(c, 0, 3)
    ranked(c, 1, 3)
    return [merge(c, (0, 1))]


define(
    "GatherTree",
    inputs=["step_ids: T", "parent_ids: T", "max_sequence_lengths: int32", "end_token: T"],
    outputs=["beams: T"],
    attrs=["T: {int32}"],
    shape=gather_tree,
)
