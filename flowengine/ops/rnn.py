"""Fused recurrent cells."""

from __future__ import annotations

from flowengine.ops.registry import define

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
)
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
)
define(
    "GRUBlockCell",
    inputs=["x: T", "h_prev: T", "w_ru: T", "w_c: T", "b_ru: T", "b_c: T"],
    outputs=["r: T", "u: T", "c: T", "h: T"],
    attrs=["T: {float}"],
)
define(
    "GRUBlockCellGrad",
    inputs=["x: T", "h_prev: T", "w_ru: T", "w_c: T", "b_ru: T", "b_c: T", "r: T", "u: T", "c: T", "d_h: T"],
    outputs=["d_x: T", "d_h_prev: T", "d_c_bar: T", "d_r_bar_u_bar: T"],
    attrs=["T: {float}"],
)
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
)
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
)
define(
    "GatherTree",
    inputs=["step_ids: T", "parent_ids: T", "max_sequence_lengths: int32", "end_token: T"],
    outputs=["beams: T"],
    attrs=["T: {int32}"],
)
