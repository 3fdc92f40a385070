"""Diagonals and bands of (batches of) matrices."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "BatchMatrixBandPart",
    inputs=["input: T", "num_lower: int64", "num_upper: int64"],
    outputs=["band: T"],
    attrs=["T: type"],
)
define("BatchMatrixDiag", inputs=["diagonal: T"], outputs=["output: T"], attrs=["T: type"])
define("BatchMatrixDiagPart", inputs=["input: T"], outputs=["diagonal: T"], attrs=["T: type"])
define("BatchMatrixSetDiag", inputs=["input: T", "diagonal: T"], outputs=["output: T"], attrs=["T: type"])
define(
    "ConjugateTranspose",
    inputs=["x: T", "perm: Tperm"],
    outputs=["y: T"],
    attrs=["T: type", "Tperm: {int32, int64} = int32"],
)
define(
    "Diag",
    inputs=["diagonal: T"],
    outputs=["output: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "DiagPart",
    inputs=["input: T"],
    outputs=["diagonal: T"],
    attrs=["T: {bfloat16, half, float, double, int32, int64, complex64, complex128}"],
)
define(
    "MatrixBandPart",
    inputs=["input: T", "num_lower: Tindex", "num_upper: Tindex"],
    outputs=["band: T"],
    attrs=["T: type", "Tindex: {int32, int64} = int64"],
)
define("MatrixDiag", inputs=["diagonal: T"], outputs=["output: T"], attrs=["T: type"])
define("MatrixDiagPart", inputs=["input: T"], outputs=["diagonal: T"], attrs=["T: type"])
define(
    "MatrixDiagPartV2",
    inputs=["input: T", "k: int32", "padding_value: T"],
    outputs=["diagonal: T"],
    attrs=["T: type"],
)
define(
    "MatrixDiagV2",
    inputs=["diagonal: T", "k: int32", "num_rows: int32", "num_cols: int32", "padding_value: T"],
    outputs=["output: T"],
    attrs=["T: type"],
)
define("MatrixSetDiag", inputs=["input: T", "diagonal: T"], outputs=["output: T"], attrs=["T: type"])
define(
    "MatrixSetDiagV2",
    inputs=["input: T", "diagonal: T", "k: int32"],
    outputs=["output: T"],
    attrs=["T: type"],
)
