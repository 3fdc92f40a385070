"""Cells of recurrent networks as single ops: GRU and LSTM, one step or a sequence, and their gradients.

Gates are computed in one product of [x, h] with all weights. In an LSTM they lie in the order input, cell,
forget, output; version 2 of the sequence op has input, forget, cell, output.
"""

from __future__ import annotations

from typing import Any

from flowengine.core.arrays import Array
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common.ufuncs import float_kernel, shape_text


def _sigmoid(xp: Any, x: Array) -> Any:
    return xp.reciprocal(xp.add(xp.exp(xp.negative(x)), 1))


def _product(xp: Any, parts: list[Array], weights: Array, bias: Array) -> Any:
    """[parts] times weights plus bias; InvalidArgumentError where the widths do not fit."""
    joined = xp.concatenate(parts, axis=1)
    if weights.ndim != 2 or joined.shape[1] != weights.shape[0] or bias.shape != weights.shape[1:]:
        raise InvalidArgumentError(
            f"input and state of {joined.shape[1]} columns need weights of as many rows and a bias of as "
            f"many elements as columns, not {shape_text(weights)} and {shape_text(bias)}"
        )
    return xp.add(xp.dot(joined, weights), bias)


@float_kernel("GRUBlockCell", fresh=True)
def gru_block_cell(xp: Any, x: Array, h_prev: Array, w_ru: Array, w_c: Array, b_ru: Array, b_c: Array) -> Any:
    """One step: x (B, I), h_prev (B, C) to reset gate, update gate, candidate, new state, each (B, C)."""
    gates = _sigmoid(xp, _product(xp, [x, h_prev], w_ru, b_ru))
    cells = h_prev.shape[1]
    r, u = gates[:, :cells].copy(), gates[:, cells:].copy()
    c = xp.tanh(_product(xp, [x, h_prev * r], w_c, b_c))
    return r, u, c, u * h_prev + (1 - u) * c


@float_kernel("GRUBlockCellGrad", fresh=True)
def gru_block_cell_grad(
    xp: Any,
    x: Array,
    h_prev: Array,
    w_ru: Array,
    w_c: Array,
    b_ru: Array,
    b_c: Array,
    r: Array,
    u: Array,
    c: Array,
    d_h: Array,
) -> Any:
    """Gradients of x, of h_prev, and of the arguments of the candidate's tanh and the gates' sigmoid."""
    inputs = x.shape[1]
    d_c_bar = d_h * (1 - u) * (1 - c * c)
    d_u_bar = d_h * (h_prev - c) * (u * (1 - u))
    through_c = xp.dot(d_c_bar, w_c.T)
    d_hr = through_c[:, inputs:]
    d_r_bar = d_hr * h_prev * (r * (1 - r))
    d_gates = xp.concatenate([d_r_bar, d_u_bar], axis=1)
    through_gates = xp.dot(d_gates, w_ru.T)
    d_x = through_gates[:, :inputs] + through_c[:, :inputs]
    d_h_prev = through_gates[:, inputs:] + d_hr * r + d_h * u
    return d_x, d_h_prev, d_c_bar, d_gates


def _lstm_step(
    xp: Any,
    gates: tuple[Array, Array, Array, Array],
    cs_prev: Array,
    peepholes: tuple[Array, Array, Array] | None,
    forget_bias: float,
    cell_clip: float,
) -> Any:
    """(i, cs, f, o, ci, co, h) from the gates' arguments in the order i, ci, f, o."""
    i, ci, f, o = gates
    dtype = cs_prev.dtype.type
    f = f + dtype(forget_bias)
    if peepholes is not None:
        i = i + cs_prev * peepholes[0]
        f = f + cs_prev * peepholes[1]
    i, f, ci = _sigmoid(xp, i), _sigmoid(xp, f), xp.tanh(ci)
    cs = ci * i + f * cs_prev
    if cell_clip > 0:
        cs = xp.clip(cs, dtype(-cell_clip), dtype(cell_clip))
    if peepholes is not None:
        o = o + cs * peepholes[2]
    o, co = _sigmoid(xp, o), xp.tanh(cs)
    return i, cs, f, o, ci, co, o * co


@float_kernel("LSTMBlockCell", fresh=True)
def lstm_block_cell(
    xp: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """One step: i, cs, f, o, ci, co, h, each (B, C); cs is clipped where `cell_clip` is positive."""
    gates = xp.split(_product(xp, [x, h_prev], w, b), 4, axis=1)
    peepholes = (wci, wcf, wco) if use_peephole else None
    return _lstm_step(xp, tuple(gates), cs_prev, peepholes, forget_bias, cell_clip)


@float_kernel("LSTMBlockCellGrad", fresh=True)
def lstm_block_cell_grad(
    xp: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    i: Array,
    cs: Array,
    f: Array,
    o: Array,
    ci: Array,
    co: Array,
    cs_grad: Array,
    h_grad: Array,
    *,
    use_peephole: bool,
) -> Any:
    """Gradients of cs_prev, of the gates' arguments (B, 4 C), and of the three peephole vectors."""
    peepholes = (wci, wcf, wco) if use_peephole else None
    d_i, d_ci, d_f, d_o, cs_prev_grad = _lstm_step_grad(
        (i, cs, f, o, ci, co), cs_prev, peepholes, cs_grad, h_grad
    )
    peephole_grads = [xp.zeros_like(v) for v in (wci, wcf, wco)]
    if use_peephole:
        peephole_grads = [(d * s).sum(0) for d, s in ((d_i, cs_prev), (d_f, cs_prev), (d_o, cs))]
    return cs_prev_grad, xp.concatenate([d_i, d_ci, d_f, d_o], axis=1), *peephole_grads


def _lstm_step_grad(
    results: tuple[Array, ...],
    cs_prev: Array,
    peepholes: tuple[Array, Array, Array] | None,
    cs_grad: Array,
    h_grad: Array,
) -> Any:
    """Gradients of the arguments of i, ci, f, o and of cs_prev, from the results i, cs, f, o, ci, co."""
    i, _, f, o, ci, co = results
    d_o = o * (1 - o) * h_grad * co
    d_cs = (1 - co * co) * h_grad * o + cs_grad
    if peepholes is not None:
        d_cs = d_cs + d_o * peepholes[2]
    d_ci = (1 - ci * ci) * d_cs * i
    d_f = f * (1 - f) * d_cs * cs_prev
    d_i = i * (1 - i) * d_cs * ci
    cs_prev_grad = d_cs * f
    if peepholes is not None:
        cs_prev_grad = cs_prev_grad + d_i * peepholes[0] + d_f * peepholes[1]
    return d_i, d_ci, d_f, d_o, cs_prev_grad


def _sequence(
    xp: Any,
    length: Any,
    x: Array,
    state: tuple[Array, Array],
    weights: tuple[Array, Array],
    peepholes: tuple[Array, Array, Array] | None,
    order: tuple[int, int, int, int],
    forget_bias: float,
    cell_clip: float,
) -> Any:
    """All steps of (T, B, I): seven tensors (T, B, C), zero from `length` on."""
    if x.ndim != 3:
        raise InvalidArgumentError(f"x must be 3-dimensional, not {shape_text(x)}")
    cs, h = state
    outputs = tuple(xp.zeros((*x.shape[:2], cs.shape[1]), x.dtype) for _ in range(7))
    for step in range(min(int(length), x.shape[0])):
        parts = xp.split(_product(xp, [x[step], h], *weights), 4, axis=1)
        i, ci, f, o = (parts[place] for place in order)
        results = _lstm_step(xp, (i, ci, f, o), cs, peepholes, forget_bias, cell_clip)
        cs, h = results[1], results[6]
        for output, result in zip(outputs, results, strict=True):
            output[step] = result
    return outputs


@float_kernel("BlockLSTM", fresh=True, host=("seq_len_max",))
def block_lstm(
    xp: Any,
    seq_len_max: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    forget_bias: float,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """`LSTMBlockCell` over a sequence (T, B, I) up to step `seq_len_max`: seven tensors (T, B, C)."""
    peepholes = (wci, wcf, wco) if use_peephole else None
    order = (0, 1, 2, 3)
    return _sequence(xp, seq_len_max, x, (cs_prev, h_prev), (w, b), peepholes, order, forget_bias, cell_clip)


@float_kernel("BlockLSTMV2", fresh=True, host=("seq_len_max",))
def block_lstm_v2(
    xp: Any,
    seq_len_max: Any,
    x: Array,
    cs_prev: Array,
    h_prev: Array,
    w: Array,
    wci: Array,
    wcf: Array,
    wco: Array,
    b: Array,
    *,
    cell_clip: float,
    use_peephole: bool,
) -> Any:
    """`BlockLSTM` with the gates in the order input, forget, cell, output, and no bias to forgetting."""
    peepholes = (wci, wcf, wco) if use_peephole else None
    order = (0, 2, 1, 3)
    return _sequence(xp, seq_len_max, x, (cs_prev, h_prev), (w, b), peepholes, order, 0.0, cell_clip)


def _sequence_grad(
    xp: Any, length: Any, inputs: tuple[Array, ...], order: tuple[int, int, int, int], use_peephole: bool
) -> Any:
    """Gradients of x, cs_prev, h_prev, w, the peepholes and b; nothing comes from steps from `length` on.

    inputs   what `BlockLSTM` took but its length, what it gave, and the gradients of cs and h
    order    where the gates i, ci, f, o lie in the columns of w
    """
    x, cs_prev, h_prev, w, wci, wcf, wco = inputs[:7]
    if x.ndim != 3 or inputs[8].ndim != 3:
        raise InvalidArgumentError(
            f"x and i must be 3-dimensional, not {shape_text(x)} and {shape_text(inputs[8])}"
        )
    if w.ndim != 2 or w.shape != (x.shape[2] + cs_prev.shape[-1], 4 * cs_prev.shape[-1]):
        raise InvalidArgumentError(
            f"w must have a row for each of {x.shape[2]} inputs and {cs_prev.shape[-1]} cells and four "
            f"columns for each cell, but has shape {shape_text(w)}"
        )
    peepholes = (wci, wcf, wco) if use_peephole else None
    steps, width = min(int(length), x.shape[0]), x.shape[2]
    x_grad = xp.zeros_like(x)
    gates = xp.zeros((max(steps, 0), *cs_prev.shape[:1], w.shape[1]), x.dtype)
    cs_before = xp.concatenate([cs_prev[None], inputs[9]])
    h_before = xp.concatenate([h_prev[None], inputs[14]])
    cs_carry, h_carry = xp.zeros_like(cs_prev), xp.zeros_like(h_prev)
    for step in range(steps - 1, -1, -1):
        results = tuple(each[step] for each in inputs[8:14])
        *parts, cs_carry = _lstm_step_grad(
            results, cs_before[step], peepholes, inputs[15][step] + cs_carry, inputs[16][step] + h_carry
        )
        xp.concatenate([parts[order.index(place)] for place in range(4)], axis=1, out=gates[step])
        through = xp.dot(gates[step], w.T)
        x_grad[step], h_carry = through[:, :width], through[:, width:]
    rows = gates.reshape(-1, w.shape[1])
    joined = xp.concatenate([x[: len(gates)], h_before[: len(gates)]], axis=2).reshape(len(rows), -1)
    peephole_grads = [xp.zeros_like(v) for v in (wci, wcf, wco)]
    if use_peephole:
        cells = xp.split(gates, 4, axis=2)
        # Gates i and f looked at the cells of the step before, o at its own.
        looked = (cs_before[: len(gates)], cs_before[: len(gates)], cs_before[1 : len(gates) + 1])
        peephole_grads = [
            (cells[order[gate]] * cs).sum((0, 1)) for gate, cs in zip((0, 2, 3), looked, strict=True)
        ]
    return x_grad, cs_carry, h_carry, xp.dot(joined.T, rows), *peephole_grads, rows.sum(0)


@float_kernel("BlockLSTMGrad", fresh=True, host=("seq_len_max",))
def block_lstm_grad(xp: Any, seq_len_max: Any, *inputs: Array, use_peephole: bool) -> Any:
    """Gradients of all inputs of `BlockLSTM` but the length, from its inputs, results and their gradients."""
    return _sequence_grad(xp, seq_len_max, inputs, (0, 1, 2, 3), use_peephole)


@float_kernel("BlockLSTMGradV2", fresh=True, host=("seq_len_max",))
def block_lstm_grad_v2(xp: Any, seq_len_max: Any, *inputs: Array, use_peephole: bool) -> Any:
    """`BlockLSTMGrad` with the gates in the order input, forget, cell, output."""
    return _sequence_grad(xp, seq_len_max, inputs, (0, 2, 1, 3), use_peephole)
