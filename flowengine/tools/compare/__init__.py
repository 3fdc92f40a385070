"""Comparisons of steps: where do two graphs, two checkpoints or two engines part?

`record_step` records the values of all nodes of a step, `write_record` and `read_record` keep them in a file,
and `compare_records` finds the first tensor in which two records differ, and how the error grows behind it.
`flowengine compare` does the same on the shell.
"""

from __future__ import annotations

from flowengine.tools.compare.comparison import NodeDifference, StepComparison, compare_records
from flowengine.tools.compare.differences import TensorDifference
from flowengine.tools.compare.files import read_record, write_record
from flowengine.tools.compare.names import NameMap
from flowengine.tools.compare.recorder import StepRecorder, plain_config, record_step
from flowengine.tools.compare.records import NodeRecord, StepRecord
from flowengine.tools.compare.tensors import TensorRecord

__all__ = [
    "NameMap",
    "NodeDifference",
    "NodeRecord",
    "StepComparison",
    "StepRecord",
    "StepRecorder",
    "TensorDifference",
    "TensorRecord",
    "compare_records",
    "plain_config",
    "read_record",
    "record_step",
    "write_record",
]
