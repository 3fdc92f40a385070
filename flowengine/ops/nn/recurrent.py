"""Cells of recurrent networks: GRU and LSTM, a step or a sequence."""

from __future__ import annotations

from flowengine.core.shapes import TensorShape
from flowengine.ir.opdef import ShapeContext, Shapes
from flowengine.ops.registry import define
from flowengine.ops.shape_functions import dims_of, divide_dim, merge_dims, multiply_dims, ranked, vector


@define(
    "BlockLSTM(seq_len_max: int64, x, cs_prev, h_prev, w, wci, wcf, wco, b: T) -> i, cs, f, o, ci, co, h: T",
    "forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: {half, float}",
)
@define(
    "BlockLSTMV2(seq_len_max: int64, x, cs_prev, h_prev, w, wci, wcf, wco, b: T) "
    "-> i, cs, f, o, ci, co, h: T",
    "cell_clip: float = 0.0; use_peephole: bool = false; T: {half, float}",
)
def block_lstm(c: ShapeContext) -> Shapes:
    """x (time, batch, inputs), b (4 * cells) -> seven of (time, batch, cells)"""
    time, batch, _ = dims_of(ranked(c, 1, 3), 3)
    cells = divide_dim(ranked(c, 8, 1)[0], 4, "The length of the bias")
    return [TensorShape([time, batch, cells])] * c.num_outputs


@define(
    "BlockLSTMGrad, "
    "BlockLSTMGradV2(seq_len_max: int64, x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, h, "
    "cs_grad, h_grad: T) "
    "-> x_grad, cs_prev_grad, h_prev_grad, w_grad, wci_grad, wcf_grad, wco_grad, b_grad: T",
    "use_peephole: bool; T: {half, float}",
)
def block_lstm_grad(c: ShapeContext) -> Shapes:
    """A gradient for each input but the first, shaped like it: x, cs_prev, h_prev, w, three peepholes, b."""
    return [ranked(c, i + 1, rank) for i, rank in enumerate((3, 2, 2, 2, 1, 1, 1, 1))]


@define(
    "LSTMBlockCell(x, cs_prev, h_prev, w, wci, wcf, wco, b: T) -> i, cs, f, o, ci, co, h: T",
    "forget_bias: float = 1.0; cell_clip: float = 3.0; use_peephole: bool = false; T: {half, float}",
)
@define("GRUBlockCell(x, h_prev, w_ru, w_c, b_ru, b_c: T) -> r, u, c, h: T", "T: {float}")
def cell(c: ShapeContext) -> Shapes:
    """x (batch, inputs), the state before (batch, cells) -> as many outputs of (batch, cells)"""
    batch = merge_dims(ranked(c, 0, 2)[0], ranked(c, 1, 2)[0], "The batches of input and state")
    return [TensorShape([batch, ranked(c, 1, 2)[1]])] * c.num_outputs


@define(
    "LSTMBlockCellGrad(x, cs_prev, h_prev, w, wci, wcf, wco, b, i, cs, f, o, ci, co, cs_grad, h_grad: T) "
    "-> cs_prev_grad, dicfo, wci_grad, wcf_grad, wco_grad: T",
    "use_peephole: bool; T: {half, float}",
)
def lstm_cell_grad(c: ShapeContext) -> Shapes:
    batch, cells = dims_of(ranked(c, 1, 2), 2)
    peephole = vector(cells)
    gates = TensorShape([batch, multiply_dims(cells, 4)])
    return [TensorShape([batch, cells]), gates, peephole, peephole, peephole]


@define(
    "GRUBlockCellGrad(x, h_prev, w_ru, w_c, b_ru, b_c, r, u, c, d_h: T) "
    "-> d_x, d_h_prev, d_c_bar, d_r_bar_u_bar: T",
    "T: {float}",
)
def gru_cell_grad(c: ShapeContext) -> Shapes:
    batch, cells = dims_of(ranked(c, 1, 2), 2)
    state = TensorShape([batch, cells])
    return [ranked(c, 0, 2), state, state, TensorShape([batch, multiply_dims(cells, 2)])]
