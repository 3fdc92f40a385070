"""Cells of recurrent networks: GRU and LSTM, a step or a sequence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tests.oprecords.record import OpRecord, Sample, bad, sample

_BATCH, _INPUTS, _CELLS, _STEPS = 2, 2, 3, 4


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _lstm(order: str, length: int, inputs: Any, forget_bias: float, use_peephole: bool) -> list[Any]:
    """i, cs, f, o, ci, co, h of a sequence, zero behind `length`; the gates lie as in `order`."""
    x, cs, h, w, wci, wcf, wco, b = inputs
    peep = float(use_peephole)
    steps = []
    for step in range(length):
        gates = dict(zip(order, np.split(np.concatenate([x[step], h], 1) @ w + b, 4, axis=1), strict=True))
        i = _sigmoid(gates["i"] + peep * cs * wci)
        f = _sigmoid(gates["f"] + forget_bias + peep * cs * wcf)
        ci = np.tanh(gates["c"])
        cs = ci * i + f * cs
        o = _sigmoid(gates["o"] + peep * cs * wco)
        co = np.tanh(cs)
        h = o * co
        steps.append((i, cs, f, o, ci, co, h))
    none = np.zeros_like(cs)
    return [np.stack([*parts, *[none] * (len(x) - length)]) for parts in zip(*steps, strict=True)]


def _numerical(loss: Callable[[], float], array: Any) -> Any:
    """The gradient of a number with regard to an array in which it is computed."""
    gradient = np.zeros_like(array)
    for place in np.ndindex(array.shape):
        kept, width = array[place], 1e-6
        array[place] = kept + width
        above = loss()
        array[place] = kept - width
        gradient[place] = (above - loss()) / (2 * width)
        array[place] = kept
    return gradient


def _grad(order: str) -> Callable[..., Any]:
    def gradient(length: Any, *inputs: Any, use_peephole: bool) -> Any:
        given = [np.array(v, np.float64) for v in inputs[:8]]
        cs_grad, h_grad = inputs[15], inputs[16]

        def loss() -> float:
            _, cs, *_, h = _lstm(order, int(length), given, 0.0, use_peephole)
            return float((cs * cs_grad + h * h_grad)[: int(length)].sum())

        return tuple(_numerical(loss, each) for each in given)

    return gradient


def _wave(*shape: int) -> Any:
    return np.round(np.sin(np.arange(np.prod(shape)) * 1.7 + len(shape)).reshape(shape) * 8) / 8


_GIVEN: Final = (
    _wave(_STEPS, _BATCH, _INPUTS),
    _wave(_BATCH, _CELLS),
    _wave(_BATCH, _CELLS) / 2,
    _wave(_INPUTS + _CELLS, 4 * _CELLS),
    *(_wave(_CELLS) * scale for scale in (0.5, 1.0, -0.5)),
    _wave(4 * _CELLS),
)


def _grad_sample(order: str, length: int, use_peephole: bool) -> Sample:
    results = _lstm(order, length, _GIVEN, 0.0, use_peephole)
    upstream = (_wave(_STEPS, _BATCH, _CELLS), -_wave(_STEPS, _BATCH, _CELLS) / 2)
    return sample(length, *_GIVEN, *results, *upstream, use_peephole=use_peephole)


def _grad_record(op: str, order: str) -> OpRecord:
    good = _grad_sample(order, _STEPS, False)
    flat = (good.inputs[0], good.inputs[1][0], *good.inputs[2:])
    narrow = (*good.inputs[:4], good.inputs[4][1:], *good.inputs[5:])
    return OpRecord(
        op,
        [good, _grad_sample(order, _STEPS, True), _grad_sample(order, 2, True)],
        _grad(order),
        [
            bad("InvalidArgumentError", "3", *flat, use_peephole=False),
            bad("InvalidArgumentError", "w must have", *narrow, use_peephole=False),
        ],
        dtypes={"T": ("float32", "float16")},
        loose=30,
    )


RECORDS: Final = [_grad_record("BlockLSTMGrad", "icfo"), _grad_record("BlockLSTMGradV2", "ifco")]

#: {why they have no record: ops}
EXCUSED: Final = {
    "whole recurrent cells, not yet: tests/kernels, tests/conformance": """
        BlockLSTM BlockLSTMV2 GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad
    """,
}
