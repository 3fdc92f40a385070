"""Lists of tensors made of one tensor, and joined to one."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        TensorListConcat TensorListConcatV2 TensorListFromTensor TensorListGather TensorListScatter
        TensorListScatterIntoExistingList TensorListScatterV2 TensorListSplit TensorListStack
    """,
}
