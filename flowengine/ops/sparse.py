"""Sparse tensors."""

from __future__ import annotations

from flowengine.ops.registry import define

define(
    "AddManySparseToTensorsMap",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["sparse_handles: int64"],
    attrs=["T: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "AddSparseToTensorsMap",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["sparse_handle: int64"],
    attrs=["T: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
define(
    "DeserializeManySparse",
    inputs=["serialized_sparse: string"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type"],
)
define(
    "DeserializeSparse",
    inputs=["serialized_sparse: Tserialized"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type", "Tserialized: {string, variant} = string"],
)
define(
    "SerializeManySparse",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["serialized_sparse: out_type"],
    attrs=["T: type", "out_type: {string, variant} = string"],
)
define(
    "SerializeSparse",
    inputs=["sparse_indices: int64", "sparse_values: T", "sparse_shape: int64"],
    outputs=["serialized_sparse: out_type"],
    attrs=["T: type", "out_type: {string, variant} = string"],
)
define(
    "SparseAdd",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
        "thresh: Treal",
    ],
    outputs=["sum_indices: int64", "sum_values: T", "sum_shape: int64"],
    attrs=["T: numbertype", "Treal: realnumbertype"],
)
define(
    "SparseAddGrad",
    inputs=["backprop_val_grad: T", "a_indices: int64", "b_indices: int64", "sum_indices: int64"],
    outputs=["a_val_grad: T", "b_val_grad: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseConcat",
    inputs=["indices: N * int64", "values: N * T", "shapes: N * int64"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["concat_dim: int", "N: int >= 2", "T: type"],
)
define(
    "SparseCross",
    inputs=["indices: N * int64", "values: sparse_types", "shapes: N * int64", "dense_inputs: dense_types"],
    outputs=["output_indices: int64", "output_values: out_type", "output_shape: int64"],
    attrs=[
        "N: int >= 0",
        "hashed_output: bool",
        "num_buckets: int >= 0",
        "hash_key: int",
        "sparse_types: list({int64, string}) >= 0",
        "dense_types: list({int64, string}) >= 0",
        "out_type: {int64, string}",
        "internal_type: {int64, string}",
    ],
)
define(
    "SparseDenseCwiseAdd",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseDenseCwiseDiv",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseDenseCwiseMul",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64", "dense: T"],
    outputs=["output: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseFillEmptyRows",
    inputs=["indices: int64", "values: T", "dense_shape: int64", "default_value: T"],
    outputs=[
        "output_indices: int64",
        "output_values: T",
        "empty_row_indicator: bool",
        "reverse_index_map: int64",
    ],
    attrs=["T: type"],
)
define(
    "SparseFillEmptyRowsGrad",
    inputs=["reverse_index_map: int64", "grad_values: T"],
    outputs=["d_values: T", "d_default_value: T"],
    attrs=["T: type"],
)
define(
    "SparseReduceMax",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: realnumbertype"],
)
define(
    "SparseReduceMaxSparse",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["keep_dims: bool = false", "T: realnumbertype"],
)
define(
    "SparseReduceSum",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output: T"],
    attrs=["keep_dims: bool = false", "T: numbertype"],
)
define(
    "SparseReduceSumSparse",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64", "reduction_axes: int32"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["keep_dims: bool = false", "T: numbertype"],
)
define(
    "SparseReorder",
    inputs=["input_indices: int64", "input_values: T", "input_shape: int64"],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: type"],
)
define(
    "SparseReshape",
    inputs=["input_indices: int64", "input_shape: int64", "new_shape: int64"],
    outputs=["output_indices: int64", "output_shape: int64"],
)
define(
    "SparseSlice",
    inputs=["indices: int64", "values: T", "shape: int64", "start: int64", "size: int64"],
    outputs=["output_indices: int64", "output_values: T", "output_shape: int64"],
    attrs=["T: type"],
)
define(
    "SparseSliceGrad",
    inputs=["backprop_val_grad: T", "input_indices: int64", "input_start: int64", "output_indices: int64"],
    outputs=["val_grad: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseSoftmax",
    inputs=["sp_indices: int64", "sp_values: T", "sp_shape: int64"],
    outputs=["output: T"],
    attrs=["T: {float, double}"],
)
define(
    "SparseSparseMaximum",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: realnumbertype"],
)
define(
    "SparseSparseMinimum",
    inputs=[
        "a_indices: int64",
        "a_values: T",
        "a_shape: int64",
        "b_indices: int64",
        "b_values: T",
        "b_shape: int64",
    ],
    outputs=["output_indices: int64", "output_values: T"],
    attrs=["T: numbertype"],
)
define(
    "SparseSplit",
    inputs=["split_dim: int64", "indices: int64", "values: T", "shape: int64"],
    outputs=[
        "output_indices: num_split * int64",
        "output_values: num_split * T",
        "output_shape: num_split * int64",
    ],
    attrs=["num_split: int >= 1", "T: type"],
)
define(
    "SparseTensorDenseAdd",
    inputs=["a_indices: Tindices", "a_values: T", "a_shape: Tindices", "b: T"],
    outputs=["output: T"],
    attrs=["T: numbertype", "Tindices: {int32, int64}"],
)
define(
    "SparseTensorDenseMatMul",
    inputs=["a_indices: Tindices", "a_values: T", "a_shape: int64", "b: T"],
    outputs=["product: T"],
    attrs=[
        "T: type",
        "Tindices: {int32, int64} = int64",
        "adjoint_a: bool = false",
        "adjoint_b: bool = false",
    ],
)
define(
    "SparseToDense",
    inputs=["sparse_indices: Tindices", "output_shape: Tindices", "sparse_values: T", "default_value: T"],
    outputs=["dense: T"],
    attrs=["validate_indices: bool = true", "T: type", "Tindices: {int32, int64}"],
)
define(
    "TakeManySparseFromTensorsMap",
    inputs=["sparse_handles: int64"],
    outputs=["sparse_indices: int64", "sparse_values: dtype", "sparse_shape: int64"],
    attrs=["dtype: type", 'container: string = ""', 'shared_name: string = ""'],
    is_stateful=True,
)
