"""Arrays of tensors, written and read by steps of a loop."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance": """
        TensorArray TensorArrayClose TensorArrayCloseV2 TensorArrayCloseV3 TensorArrayConcat
        TensorArrayConcatV2 TensorArrayConcatV3 TensorArrayGather TensorArrayGatherV2
        TensorArrayGatherV3 TensorArrayGrad TensorArrayGradV2 TensorArrayGradV3
        TensorArrayGradWithShape TensorArrayPack TensorArrayRead TensorArrayReadV2 TensorArrayReadV3
        TensorArrayScatter TensorArrayScatterV2 TensorArrayScatterV3 TensorArraySize
        TensorArraySizeV2 TensorArraySizeV3 TensorArraySplit TensorArraySplitV2 TensorArraySplitV3
        TensorArrayUnpack TensorArrayV2 TensorArrayV3 TensorArrayWrite TensorArrayWriteV2
        TensorArrayWriteV3
    """,
}
