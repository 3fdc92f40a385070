"""All records, and the ops that have none, by the reason."""

from __future__ import annotations

from typing import Final

from tests.oprecords import (
    array,
    audio,
    blocks,
    convolution,
    image,
    indexing,
    math_binary,
    math_unary,
    nn,
    pooling,
    random,
    reductions,
    segments,
    state,
    training,
)
from tests.oprecords.record import OpRecord

RECORDS: Final[list[OpRecord]] = [
    *math_unary.RECORDS,
    *math_binary.RECORDS,
    *reductions.RECORDS,
    *nn.RECORDS,
    *image.RECORDS,
    *random.RECORDS,
    *state.RECORDS,
    *convolution.RECORDS,
    *pooling.RECORDS,
    *array.RECORDS,
    *indexing.RECORDS,
    *segments.RECORDS,
    *blocks.RECORDS,
    *training.RECORDS,
    *audio.RECORDS,
]

#: {kernel module: why its ops need no record, and what tests them instead}
OTHER_FAMILIES: Final = {
    **dict.fromkeys(
        ["control.control_flow", "control.sendrecv"],
        "dead tokens and frames are no values: tests/runtime, tests/conformance",
    ),
    **dict.fromkeys(
        [f"queues.{name}" for name in ("accumulators", "barriers", "batching", "queues", "staging")]
        + ["state.mutexes"],
        "they wait, or hold what others wait for: tests/resources, tests/conformance",
    ),
    **dict.fromkeys(
        [f"data.{name}" for name in ("optional", "tensor_list", "tensor_list_joining")]
        + [f"state.{name}" for name in ("stack", "table_files", "tables", "tensor_array")],
        "their value is an object, not a tensor: tests/resources, tests/kernels, tests/conformance",
    ),
    **dict.fromkeys(
        [f"state.{name}" for name in ("resource_variables", "session_tensors", "variables")],
        "several steps show what the rest do: tests/kernels/test_state*.py",
    ),
    **dict.fromkeys(
        [
            f"io.{name}"
            for name in (
                "checkpoint",
                "checkpoint_v1",
                "files",
                "printing",
                "readers",
                "record_input",
                "remapping",
            )
        ],
        "they touch files and streams: tests/kernels, tests/conformance",
    ),
    **dict.fromkeys(
        [f"strings.{name}" for name in ("elements", "formatting", "hashing", "regex", "splitting")]
        + ["image.coding", "io.decoding", "io.examples"],
        "values of strings, told by recorded ones: tests/kernels, tests/conformance",
    ),
    **dict.fromkeys(
        ["nn.fractional_pooling", "random.gamma", "random.stateless"],
        "random with parts that are not: tests/kernels, tests/conformance",
    ),
    **dict.fromkeys(["nn.recurrent"], "whole recurrent cells, not yet: tests/kernels, tests/conformance"),
    **dict.fromkeys(["io.summaries"], "their value is a serialized message: tests/conformance"),
}

#: {why they have no record: ops}
OTHER_OPS: Final = {
    "no inputs to sample, or nothing that comes out": """
        Abort Assert Const FakeParam NoOp Placeholder PlaceholderV2
    """,
    "not yet; tests/kernels and tests/conformance compare them with recorded values": """
        BatchNormWithGlobalNormalizationGrad MatrixDiagPartV2 MatrixDiagV2 MatrixSetDiagV2
        QuantizedReshape SparseSegmentSumGrad
    """,
}
