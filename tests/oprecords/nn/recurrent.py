"""Cells of recurrent networks: GRU and LSTM, a step or a sequence."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "whole recurrent cells, not yet: tests/kernels, tests/conformance": """
        BlockLSTM BlockLSTMV2 GRUBlockCell GRUBlockCellGrad LSTMBlockCell LSTMBlockCellGrad
    """,
}
