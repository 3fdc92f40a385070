"""Lists of tensors as values, and their single elements."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        EmptyTensorList TensorListConcatLists TensorListElementShape TensorListGetItem
        TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch
        TensorListReserve TensorListResize TensorListSetItem
    """,
}
