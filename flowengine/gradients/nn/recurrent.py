"""Cells of recurrent networks: GRU and LSTM, a step or a sequence."""

from __future__ import annotations

from flowengine.gradients.backward import Backward
from flowengine.gradients.registry import gradient
from flowengine.gradients.rules import same
from flowengine.gradients.values import Results
from flowengine.graphs.tensor import Operation, Tensor


@gradient("BlockLSTM")
def block_lstm(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """From the gradients of cells and outputs; those of the gates are not asked, as in TensorFlow."""
    _, cs, _, _, _, _, h = grads
    return [None, *b.ops.BlockLSTMGrad(*op.inputs, *op.outputs, cs, h, **same(op, "use_peephole"))]


@gradient("BlockLSTMV2")
def block_lstm_v2(b: Backward, op: Operation, *grads: Tensor) -> Results:
    _, cs, _, _, _, _, h = grads
    return [None, *b.ops.BlockLSTMGradV2(*op.inputs, *op.outputs, cs, h, **same(op, "use_peephole"))]


@gradient("LSTMBlockCell")
def lstm_cell(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """x (batch, inputs), h (batch, cells) and the weights that both are multiplied by

    The op of the gradient gives that of the gates before they are squashed, (batch, 4 cells); the rest are
    the products of a dense layer.
    """
    x, cs_prev, h_prev, w, wci, wcf, wco, bias = op.inputs
    _, cs, _, _, _, _, h = grads
    d_cs_prev, gates, d_wci, d_wcf, d_wco = b.ops.LSTMBlockCellGrad(
        *(x, cs_prev, h_prev, w, wci, wcf, wco, bias),
        *op.outputs[:6],
        cs,
        h,
        **same(op, "use_peephole"),
    )
    d_x, d_h_prev = _parts(b, b.ops.MatMul(gates, w, transpose_b=True), x, h_prev)
    d_w = b.ops.MatMul(_side_by_side(b, x, h_prev), gates, transpose_a=True)
    return [d_x, d_cs_prev, d_h_prev, d_w, d_wci, d_wcf, d_wco, b.ops.BiasAddGrad(gates)]


def _parts(b: Backward, joined: Tensor, x: Tensor, h: Tensor) -> tuple[Tensor, Tensor]:
    """(batch, inputs + cells) -> the columns of x and those of h"""
    zero, one = b.constant(0, "int32"), b.constant(1, "int32")
    widths = [b.ops.GatherV2(b.shape(each), one, zero) for each in (x, h)]
    left, right = b.ops.SplitV(joined, b.ops.Pack(widths), one, num_split=2)
    return left, right


def _side_by_side(b: Backward, x: Tensor, h: Tensor) -> Tensor:
    joined: Tensor = b.ops.ConcatV2([x, h], b.constant(1, "int32"))
    return joined


@gradient("GRUBlockCell")
def gru_cell(b: Backward, op: Operation, *grads: Tensor) -> Results:
    """The op of the gradient gives those of the gates and of the candidate before they are squashed."""
    x, h_prev = op.inputs[:2]
    r, u, c, _ = op.outputs
    d_x, d_h_prev, candidate, gates = b.ops.GRUBlockCellGrad(*op.inputs, r, u, c, grads[3])
    d_w_gates = b.ops.MatMul(_side_by_side(b, x, h_prev), gates, transpose_a=True)
    reset = b.ops.Mul(h_prev, r)
    d_w_candidate = b.ops.MatMul(_side_by_side(b, x, reset), candidate, transpose_a=True)
    d_biases = [b.ops.BiasAddGrad(gates), b.ops.BiasAddGrad(candidate)]
    return [d_x, d_h_prev, d_w_gates, d_w_candidate, *d_biases]
