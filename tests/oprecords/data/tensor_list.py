"""Lists of tensors, their elements, and tensors made of lists."""

from __future__ import annotations

from typing import Final

# Lists of tensors as values, and their single elements.

#: {why they have no record: ops}


# Lists of tensors made of one tensor, and joined to one.

#: {why they have no record: ops}

EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        EmptyTensorList TensorListConcatLists TensorListElementShape TensorListGetItem
        TensorListLength TensorListPopBack TensorListPushBack TensorListPushBackBatch
        TensorListReserve TensorListResize TensorListSetItem TensorListConcat TensorListConcatV2
        TensorListFromTensor TensorListGather TensorListScatter TensorListScatterIntoExistingList
        TensorListScatterV2 TensorListSplit TensorListStack
    """,
}
