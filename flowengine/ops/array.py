"""Constants, placeholders, identities and what is asked of a tensor's shape."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "Bitcast",
    inputs=["input: T"],
    outputs=["output: type"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
            "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
        (
            "type: {bfloat16, half, float, double, int64, int32, uint8, uint16, uint32, uint64, int8, "
            "int16, complex64, complex128, qint8, quint8, qint16, quint16, qint32}"
        ),
    ],
)
define("BroadcastArgs", inputs=["s0: T", "s1: T"], outputs=["r0: T"], attrs=["T: {int32, int64} = int32"])
define(
    "BroadcastGradientArgs",
    inputs=["s0: T", "s1: T"],
    outputs=["r0: T", "r1: T"],
    attrs=["T: {int32, int64} = int32"],
)
define(
    "CheckNumerics",
    inputs=["tensor: T"],
    outputs=["output: T"],
    attrs=["T: floattype", "message: string"],
    is_stateful=True,
)
define("Const", outputs=["output: dtype"], attrs=["value: tensor", "dtype: type"])
define(
    "DebugGradientIdentity",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
)
define(
    "DebugGradientRefIdentity",
    inputs=["input: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
)
define("DeepCopy", inputs=["x: T"], outputs=["y: T"], attrs=["T: type"], is_stateful=True)
define(
    "EditDistance",
    inputs=[
        "hypothesis_indices: int64",
        "hypothesis_values: T",
        "hypothesis_shape: int64",
        "truth_indices: int64",
        "truth_values: T",
        "truth_shape: int64",
    ],
    outputs=["output: float"],
    attrs=["normalize: bool = true", "T: type"],
)
define(
    "Empty",
    inputs=["shape: int32"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "init: bool = false"],
    is_stateful=True,
)
define("EnsureShape", inputs=["input: T"], outputs=["output: T"], attrs=["shape: shape", "T: type"])
define(
    "ExpandDims",
    inputs=["input: T", "dim: Tdim"],
    outputs=["output: T"],
    attrs=["T: type", "Tdim: {int32, int64} = int32"],
)
define(
    "Fill",
    inputs=["dims: index_type", "value: T"],
    outputs=["output: T"],
    attrs=["T: type", "index_type: {int32, int64} = int32"],
)
define("Fingerprint", inputs=["data: T", "method: string"], outputs=["fingerprint: uint8"], attrs=["T: type"])
define("GuaranteeConst", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"], is_stateful=True)
define("Identity", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"])
define("IdentityN", inputs=["input: T"], outputs=["output: T"], attrs=["T: list(type) >= 1"])
define(
    "ImmutableConst",
    outputs=["tensor: dtype"],
    attrs=["dtype: type", "shape: shape", "memory_region_name: string"],
)
define(
    "OnesLike",
    inputs=["x: T"],
    outputs=["y: T"],
    attrs=[
        (
            "T: {bfloat16, half, float, double, int8, uint8, int16, uint16, int32, int64, complex64, "
            "complex128, bool}"
        )
    ],
)
define("Placeholder", outputs=["output: dtype"], attrs=["dtype: type", "shape: shape = unknown"])
define("PlaceholderV2", outputs=["output: dtype"], attrs=["dtype: type", "shape: shape"])
define(
    "PlaceholderWithDefault",
    inputs=["input: dtype"],
    outputs=["output: dtype"],
    attrs=["dtype: type", "shape: shape"],
)
define(
    "PreventGradient", inputs=["input: T"], outputs=["output: T"], attrs=["T: type", 'message: string = ""']
)
define("Rank", inputs=["input: T"], outputs=["output: int32"], attrs=["T: type"])
define(
    "RefIdentity",
    inputs=["input: Ref(T)"],
    outputs=["output: Ref(T)"],
    attrs=["T: type"],
    allows_uninitialized_input=True,
)
define(
    "Reshape",
    inputs=["tensor: T", "shape: Tshape"],
    outputs=["output: T"],
    attrs=["T: type", "Tshape: {int32, int64} = int32"],
)
define(
    "Shape",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
)
define(
    "ShapeN",
    inputs=["input: N * T"],
    outputs=["output: N * out_type"],
    attrs=["N: int >= 1", "T: type", "out_type: {int32, int64} = int32"],
)
define(
    "Size",
    inputs=["input: T"],
    outputs=["output: out_type"],
    attrs=["T: type", "out_type: {int32, int64} = int32"],
)
define("Snapshot", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"])
define(
    "Squeeze",
    inputs=["input: T"],
    outputs=["output: T"],
    attrs=["T: type", "squeeze_dims: list(int) >= 0 = []"],
)
define("StopGradient", inputs=["input: T"], outputs=["output: T"], attrs=["T: type"])
define("ZerosLike", inputs=["x: T"], outputs=["y: T"], attrs=["T: type"])
