"""Array kernels against NumPy, against each other's inverse, and at sizes where they take another path."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core import dtypes
from flowengine.core.errors import AbortedError, InvalidArgumentError
from flowengine.core.shapes import TensorShape
from flowengine.kernels.array.identity import summarize_value
from flowengine.kernels.common import host_rows
from flowengine.kernels.common.segment_sums import add_rows
from flowengine.kernels.numpy import resizing as image
from flowengine.kernels.numpy.order.appearances import first_appearances

Run = Callable[..., Any]


def _strings(*values: bytes) -> Any:
    array = np.empty(len(values), object)
    array[:] = values
    return array


# -- constants, identities ---------------------------------------------------------------------------


def test_a_placeholder_says_what_it_wants(run_op: Run) -> None:
    with pytest.raises(InvalidArgumentError, match=r"'node' with dtype float32 and shape \[\?,3\]"):
        run_op("Placeholder", dtype=dtypes.float32, shape=TensorShape([None, 3]))
    with pytest.raises(InvalidArgumentError, match="must feed a value for placeholder"):
        run_op("Placeholder", dtype=dtypes.float32)


def test_assert_shows_its_data(run_op: Run) -> None:
    data = (b"x is", np.array([[1, 2], [3, 4]]), np.float32(0.5))
    assert run_op("Assert", np.bool_(True), data) == ()
    with pytest.raises(
        InvalidArgumentError, match=r"assertion failed: \[x is\] \[\[1 2\]\[3\.\.\.\]\.\.\.\] \[0\.5\]$"
    ):
        run_op("Assert", np.bool_(False), data)
    with pytest.raises(InvalidArgumentError, match="condition must be a scalar"):
        run_op("Assert", np.array([True]), data)


def test_summaries_stop_at_the_count() -> None:
    assert summarize_value(np.arange(5), 3) == "0 1 2..."
    assert summarize_value(np.arange(3), 3) == "0 1 2"
    assert summarize_value(np.array([[1, 2], [3, 4]]), 2) == "[1 2]..."
    assert summarize_value(np.array([[1, 2], [3, 4]]), 4) == "[1 2][3 4]"
    assert summarize_value(np.zeros((2, 1, 2), bool), -1) == "[[0 0]][[0 0]]"
    assert summarize_value(np.arange(5), -1) == "0 1 2 3 4"
    assert summarize_value(_strings(b"a", b"\xff"), -1) == "a \\xff"
    assert summarize_value(np.zeros((0, 2)), 3) == ""


def test_ensure_shape(run_op: Run) -> None:
    x = np.zeros((2, 3))
    assert run_op("EnsureShape", x, shape=TensorShape([None, 3]))[0] is x
    with pytest.raises(InvalidArgumentError, match=r"\[2,3\] is not compatible with expected shape \[2,4\]"):
        run_op("EnsureShape", x, shape=TensorShape([2, 4]))


def test_filled_tensors_of_every_kind(run_op: Run) -> None:
    (large,) = run_op("Fill", np.array([100, 100], np.int32), np.float32(-0.0))
    assert np.signbit(large).all()
    (zeros,) = run_op("Fill", np.array([100, 100], np.int64), np.int16(0))
    assert zeros.dtype == np.int16
    assert not zeros.any()
    (text,) = run_op("Fill", np.array([2], np.int32), b"ab\x00")
    assert text.tolist() == [b"ab\x00", b"ab\x00"]
    (blank,) = run_op("ZerosLike", _strings(b"a", b"b"))
    assert blank.tolist() == [b"", b""]
    with pytest.raises(InvalidArgumentError, match="must not be negative"):
        run_op("Fill", np.array([2, -1], np.int32), np.float32(1))


# -- shapes ------------------------------------------------------------------------------------------


def test_shapes_of_strings_and_handles_are_scalars(run_op: Run) -> None:
    assert run_op("Shape", b"abc", types={"T": "string"})[0].tolist() == []
    assert run_op("Size", b"abc", types={"T": "string"})[0] == 1
    assert run_op("Rank", b"abc", types={"T": "string"})[0] == 0


def test_shared_shape_vectors_cannot_be_written(run_op: Run) -> None:
    (vector,) = run_op("Shape", np.zeros((2, 3)), out_type=dtypes.int64)
    assert vector.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        vector[0] = 7


def test_a_shape_that_int32_cannot_hold(run_op: Run) -> None:
    huge = np.broadcast_to(np.int8(0), (2**31 + 1, 1))
    with pytest.raises(InvalidArgumentError, match="int64"):
        run_op("Shape", huge)
    with pytest.raises(InvalidArgumentError, match="int64"):
        run_op("Size", huge)
    assert run_op("Size", huge, out_type=dtypes.int64)[0] == 2**31 + 1


@pytest.mark.parametrize(
    ("dims", "message"),
    [
        ([-1, -1], "Only one input size"),
        ([-2, 3], "non-negative"),
        ([4], "requested shape"),
        ([-1, 4], "multiple of"),
    ],
)
def test_reshape_refuses(run_op: Run, dims: list[int], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        run_op("Reshape", np.zeros(6), np.array(dims))


def test_reshape_beside_a_zero(run_op: Run) -> None:
    assert run_op("Reshape", np.zeros((0, 6)), np.array([0, -1, 3]))[0].shape == (0, 2, 3)
    assert run_op("Reshape", b"a", np.array([1, 1]), types={"T": "string"})[0].tolist() == [[b"a"]]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=4))
def test_tile_is_numpy_tile(run_op: Run, axes: list[tuple[int, int]]) -> None:
    shape = tuple(d for d, _ in axes)
    times = [m for _, m in axes]
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape)
    (result,) = run_op("Tile", x, np.array(times, np.int32))
    np.testing.assert_array_equal(result, np.tile(x, times))


@given(seed=st.integers(0, 200))
def test_transposes_large_enough_to_be_copied_in_blocks(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = [*rng.integers(1, 12, 3), int(rng.integers(300, 700))]
    rng.shuffle(shape)
    x = rng.random(shape).astype(np.float32)
    if seed % 3 == 0:
        x = x[::-1]
    perm = rng.permutation(4)
    (result,) = run_op("Transpose", x, perm.astype(np.int32))
    np.testing.assert_array_equal(result, x.transpose(perm))


def test_a_product_gets_the_view_of_a_transposed_matrix(run_op: Run) -> None:
    x = np.zeros((300, 200), np.float32)
    assert np.shares_memory(run_op("Transpose", x, np.array([1, 0]))[0], x)
    (dense,) = run_op("Transpose", np.zeros((4, 50, 60)), np.array([1, 0, 2]))
    assert dense.flags.c_contiguous


# -- joining -----------------------------------------------------------------------------------------


@given(
    shape=st.lists(st.integers(0, 3), min_size=1, max_size=3),
    count=st.integers(1, 4),
    axis=st.integers(-3, 2),
    seed=st.integers(0, 99),
)
def test_split_undoes_concat_and_unpack_undoes_pack(
    run_op: Run, shape: list[int], count: int, axis: int, seed: int
) -> None:
    rank = len(shape)
    axis = axis % rank
    values = [np.random.default_rng(seed + i).integers(0, 9, shape) for i in range(count)]
    if count > 1:
        (joined,) = run_op("ConcatV2", values, np.int32(axis))
        np.testing.assert_array_equal(joined, np.concatenate(values, axis))
        for part, value in zip(
            run_op("Split", np.int32(axis - rank), joined, num_split=count), values, strict=True
        ):
            np.testing.assert_array_equal(part, value)
    for place in (axis, axis - rank - 1):
        (packed,) = run_op("Pack", values, axis=place)
        np.testing.assert_array_equal(packed, np.stack(values, place))
        for part, value in zip(run_op("Unpack", packed, num=count, axis=place), values, strict=True):
            np.testing.assert_array_equal(part, value)


def test_packing_what_is_large_owns_its_memory(run_op: Run) -> None:
    x = np.arange(20000.0).reshape(100, 200)
    for axis in (0, 1, 2):
        (packed,) = run_op("Pack", [x, x + 1], axis=axis)
        np.testing.assert_array_equal(packed, np.stack([x, x + 1], axis))
        assert packed.flags.owndata


def test_packing_scalars_in_all_their_forms(run_op: Run) -> None:
    (numbers,) = run_op("Pack", [np.int32(1), np.array(2, np.int32)])
    assert numbers.dtype == np.int32
    assert numbers.tolist() == [1, 2]
    zero_rank = np.empty((), object)
    zero_rank[()] = b"b\x00"
    (text,) = run_op("Pack", [b"a", zero_rank], types={"T": "string"})
    assert text.tolist() == [b"a", b"b\x00"]
    (half,) = run_op("Pack", [ml_dtypes.bfloat16(1), ml_dtypes.bfloat16(2)])
    assert half.dtype == ml_dtypes.bfloat16
    with pytest.raises(InvalidArgumentError, match=r"values\[0\].shape = \[\] != values\[1\].shape = \[1\]"):
        run_op("Pack", [np.int32(1), np.array([2], np.int32)])


def test_concat_says_which_shapes_disagree(run_op: Run) -> None:
    with pytest.raises(InvalidArgumentError, match=r"shape\[0\] = \[2,3\] vs. shape\[1\] = \[2,4\]"):
        run_op("ConcatV2", [np.zeros((2, 3)), np.zeros((2, 4))], np.int32(0))
    with pytest.raises(InvalidArgumentError, match="Ranks of all input tensors"):
        run_op("ConcatV2", [np.zeros((2, 3)), np.zeros(2)], np.int32(0))
    with pytest.raises(InvalidArgumentError, match=r"range \[-2, 2\), but got 2"):
        run_op("ConcatV2", [np.zeros((2, 3)), np.zeros((2, 3))], np.int32(2))


# -- gather and scatter ------------------------------------------------------------------------------


def test_gather_names_the_index_that_is_outside(run_op: Run) -> None:
    params = np.arange(5.0)
    for bad in (7, -1):
        indices = np.array([[0, bad]], np.int32)
        with pytest.raises(InvalidArgumentError, match=rf"indices\[0,1\] = {bad} is not in \[0, 5\)"):
            run_op("GatherV2", params, indices, np.int32(0))
        with pytest.raises(InvalidArgumentError, match=rf"indices = {bad} is not in \[0, 5\)"):
            run_op("GatherV2", params, np.int32(bad), np.int32(0))
    many = np.full(1000, 4, np.int64)
    many[777] = 5
    with pytest.raises(InvalidArgumentError, match=r"indices\[777\] = 5 is not in \[0, 5\)"):
        run_op("Gather", params, many)
    with pytest.raises(InvalidArgumentError, match=r"\[3,9\] does not index into params of shape \[4,5\]"):
        run_op("GatherNd", np.zeros((4, 5)), np.array([[0, 0], [3, 9]]))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("count", [1, 17, 500])
@pytest.mark.parametrize("axis", [0, 1])
def test_gather_takes_what_is_inside_and_nothing_else(run_op: Run, dtype: Any, count: int, axis: int) -> None:
    """Negative indices too, with which NumPy counts from the end."""
    params = np.arange(30.0).reshape(5, 6)
    size = params.shape[axis]
    indices = np.random.default_rng(count).integers(0, size, (count, 2)).astype(dtype)
    for some in (indices, indices[::-1, 1], indices[0, 0]):
        (result,) = run_op("GatherV2", params, some, np.int32(axis))
        np.testing.assert_array_equal(result, params.take(some, axis))
    for bad in (size, -1, -size, np.iinfo(dtype).max, np.iinfo(dtype).min):
        indices[-1, 1] = bad
        with pytest.raises(
            InvalidArgumentError, match=rf"indices\[{count - 1},1\] = {bad} is not in \[0, {size}\)"
        ):
            run_op("GatherV2", params, indices, np.int32(axis))


@given(seed=st.integers(0, 300))
def test_gather_with_batch_dimensions_is_a_gather_of_each_entry(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch = tuple(rng.integers(1, 4, rng.integers(1, 3)))
    between = tuple(rng.integers(1, 3, rng.integers(0, 2)))
    size = int(rng.integers(1, 5))
    params = rng.random((*batch, *between, size, 2))
    indices = rng.integers(0, size, (*batch, *rng.integers(1, 3, rng.integers(1, 3))))
    axis = len(batch) + len(between)
    (result,) = run_op("GatherV2", params, indices, np.int32(axis), batch_dims=len(batch))
    for entry in np.ndindex(*batch):
        np.testing.assert_array_equal(result[entry], params[entry].take(indices[entry], len(between)))


@given(
    dtype=st.sampled_from([np.float32, np.float64, np.int32, np.int64, np.complex64, np.uint8, np.float16]),
    width=st.sampled_from([(), (1,), (8,), (4, 8)]),
    many=st.booleans(),
    seed=st.integers(0, 99),
)
def test_rows_added_by_index_on_every_path(dtype: Any, width: tuple[int, ...], many: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = 40
    size = 4 * host_rows.SPARSE_ELEMENTS // 8 if many else 50
    positions: Any = rng.integers(0, count, size).astype(np.int32 if seed % 2 else np.int64)
    rows = rng.integers(-3 if np.dtype(dtype).kind != "u" else 0, 4, (size, *width)).astype(dtype)
    out = np.ones((count, *width), dtype)
    expected = out.copy()
    add_rows(np, out, positions, rows)
    np.add.at(expected, positions, rows)
    np.testing.assert_array_equal(out, expected)


def test_scatter_nd_adds_strings_and_flags(run_op: Run) -> None:
    indices = np.array([[1], [1], [0]])
    (text,) = run_op("ScatterNd", indices, _strings(b"a", b"b", b"c"), np.array([3]))
    assert text.tolist() == [b"c", b"ab", b""]
    (flags,) = run_op("ScatterNd", indices, np.array([True, True, False]), np.array([3]))
    assert flags.tolist() == [False, True, False]
    with pytest.raises(InvalidArgumentError, match=r"indices\[1\] = \[9\] does not index into shape \[3\]"):
        run_op("ScatterNd", np.array([[0], [9]]), np.zeros(2), np.array([3]))


@given(seed=st.integers(0, 200))
def test_stitching_undoes_partitioning(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    count = int(rng.choice([1, 2, 5, 300]))
    shape = (int(rng.integers(0, 30)), 2)
    data = rng.random((*shape, 3))
    partitions = rng.integers(0, count, shape).astype(np.int32)
    positions = np.arange(partitions.size, dtype=np.int32).reshape(shape)
    parts = run_op("DynamicPartition", data, partitions, num_partitions=count)
    places = run_op("DynamicPartition", positions, partitions, num_partitions=count)
    (merged,) = run_op("DynamicStitch", places, parts)
    np.testing.assert_array_equal(merged, data.reshape(-1, 3))
    assert [len(p) for p in parts] == np.bincount(partitions.ravel(), minlength=count).tolist()


# -- distinct values, coordinates --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["dict", "table", "sort", "strings", "halves"])
@given(seed=st.integers(0, 30))
def test_first_appearances_on_every_path(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = 40 if kind == "dict" else 300
    values: Any = rng.integers(-20, 20, size)
    if kind == "sort":
        values = values * 10**9
    elif kind == "halves":
        values = values.astype(ml_dtypes.bfloat16)
    elif kind == "strings":
        values = _strings(*(str(v).encode() for v in values))
    first, numbers = first_appearances(values)
    expected = list(dict.fromkeys(values.tolist()))
    assert values[first].tolist() == expected
    assert [expected[n] for n in numbers] == values.tolist()


@pytest.mark.parametrize("size", [3, 100])
def test_nans_are_all_different_and_zeros_are_one(run_op: Run, size: int) -> None:
    x = np.tile(np.array([np.nan, 0.0, -0.0], np.float32), size)
    y, index = run_op("Unique", x)
    assert np.isnan(y).sum() == size
    assert (y == 0).sum() == 1
    assert index[1] == index[2] == 1


@given(
    shape=st.sampled_from([(3, 40), (2, 5, 17), (4, 3), (0, 20), (2, 0), (1, 1, 1, 30)]),
    seed=st.integers(0, 20),
)
def test_where_is_argwhere(run_op: Run, shape: tuple[int, ...], seed: int) -> None:
    x = np.random.default_rng(seed).integers(0, 3, shape)
    (result,) = run_op("Where", x)
    assert result.dtype == np.int64
    np.testing.assert_array_equal(result, np.argwhere(x))


@given(seed=st.integers(0, 100))
def test_one_hot_on_every_axis(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    indices = rng.integers(-1, 5, rng.integers(1, 4, rng.integers(0, 4)))
    depth = int(rng.integers(0, 5))
    axis = int(rng.integers(-1, indices.ndim + 1))
    (result,) = run_op("OneHot", indices, np.int32(depth), np.float32(2), np.float32(-1), axis=axis)
    expected = np.where(indices[..., None] == np.arange(depth), np.float32(2), np.float32(-1))
    np.testing.assert_array_equal(result, np.moveaxis(expected, -1, axis))


# -- layout ------------------------------------------------------------------------------------------


@given(seed=st.integers(0, 200), mode=st.sampled_from([b"REFLECT", b"SYMMETRIC"]))
def test_mirror_padding_and_its_adjoint(run_op: Run, seed: int, mode: bytes) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, rng.integers(1, 4)))
    edge = mode == b"REFLECT"
    paddings = np.array([[rng.integers(0, d - edge + 1) for _ in "ab"] for d in shape], np.int32)
    x = rng.integers(-5, 6, shape)
    (padded,) = run_op("MirrorPad", x, paddings, mode=mode)
    np.testing.assert_array_equal(padded, np.pad(x, paddings, "reflect" if edge else "symmetric"))
    gradient = rng.integers(-5, 6, padded.shape)
    (folded,) = run_op("MirrorPadGrad", gradient, paddings, mode=mode)
    assert (folded * x).sum() == (gradient * padded).sum()


@given(seed=st.integers(0, 100))
def test_batch_to_space_undoes_space_to_batch(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rank = int(rng.integers(1, 4))
    blocks = rng.integers(1, 4, rank)
    space = blocks * rng.integers(1, 4, rank)
    pads = np.array([[rng.integers(0, size // 2 + 1) for _ in "ab"] for size in space])
    shape = (2, *(space - pads.sum(axis=1)), 3)
    if min(shape) < 0:
        return
    x = rng.random(shape)
    (blocked,) = run_op("SpaceToBatchND", x, blocks, pads)
    assert blocked.shape == (2 * blocks.prod(), *(space // blocks), 3)
    (back,) = run_op("BatchToSpaceND", blocked, blocks, pads)
    np.testing.assert_array_equal(back, x)


@pytest.mark.parametrize("data_format", [b"NHWC", b"NCHW"])
def test_depth_to_space_undoes_space_to_depth(run_op: Run, data_format: bytes) -> None:
    x = np.arange(2 * 4 * 6 * 3).reshape(2, 4, 6, 3)
    given_x = x if data_format == b"NHWC" else x.transpose(0, 3, 1, 2)
    (deep,) = run_op("SpaceToDepth", given_x, block_size=2, data_format=data_format)
    assert deep.shape == ((2, 2, 3, 12) if data_format == b"NHWC" else (2, 12, 2, 3))
    # Depth holds the block's rows, then its columns, then the channels.
    depth = deep if data_format == b"NHWC" else deep.transpose(0, 2, 3, 1)
    np.testing.assert_array_equal(depth[0, 1, 2], x[0, 2:4, 4:6].reshape(-1))
    (back,) = run_op("DepthToSpace", deep, block_size=2, data_format=data_format)
    np.testing.assert_array_equal(back, given_x)


@given(seed=st.integers(0, 60))
def test_bands_of_matrices_narrow_and_wide(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, columns = int(rng.integers(1, 8)), int(rng.choice([3, 300]))
    x = rng.random((2, rows, columns))
    lower, upper = int(rng.integers(-1, rows)), int(rng.integers(-1, columns))
    (result,) = run_op("MatrixBandPart", x, np.int64(lower), np.int64(upper))
    expected = x.copy()
    for i in range(rows):
        for j in range(columns):
            if (lower >= 0 and i - j > lower) or (upper >= 0 and j - i > upper):
                expected[:, i, j] = 0
    np.testing.assert_array_equal(result, expected)


def test_set_diag_then_part_then_diag(run_op: Run) -> None:
    x = np.arange(24.0).reshape(2, 3, 4)
    values = -np.arange(6.0).reshape(2, 3)
    (changed,) = run_op("MatrixSetDiag", x, values)
    np.testing.assert_array_equal(run_op("MatrixDiagPart", changed)[0], values)
    np.testing.assert_array_equal(run_op("MatrixDiagPart", run_op("MatrixDiag", values)[0])[0], values)
    assert (x == np.arange(24.0).reshape(2, 3, 4)).all()


@given(seed=st.integers(0, 100))
def test_reversing_sequences_twice_is_nothing(run_op: Run, seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(rng.integers(1, 5, 3))
    seq, batch = rng.permutation(3)[:2].tolist()
    lengths = rng.integers(0, shape[seq] + 1, shape[batch])
    x = rng.random(shape)
    (once,) = run_op("ReverseSequence", x, lengths, seq_dim=seq, batch_dim=batch)
    (twice,) = run_op("ReverseSequence", once, lengths, seq_dim=seq, batch_dim=batch)
    np.testing.assert_array_equal(twice, x)
    for b, length in enumerate(lengths):
        row: Any = x.take(b, batch)
        axis = seq - (batch < seq)
        moved = np.moveaxis(row, axis, 0)
        expected = np.concatenate([moved[:length][::-1], moved[length:]])
        np.testing.assert_array_equal(np.moveaxis(np.take(once, b, batch), axis, 0), expected)


def test_patches_of_volumes(run_op: Run) -> None:
    x = np.arange(2 * 3 * 4 * 4 * 2).reshape(2, 3, 4, 4, 2)
    (result,) = run_op(
        "ExtractVolumePatches", x, ksizes=(1, 2, 2, 3, 1), strides=(1, 1, 2, 1, 1), padding=b"VALID"
    )
    assert result.shape == (2, 2, 2, 2, 2 * 2 * 3 * 2)
    np.testing.assert_array_equal(result[1, 1, 1, 0], x[1, 1:3, 2:4, 0:3].reshape(-1))


def test_abort_ends_the_step_not_the_process(run_op: Run) -> None:
    with pytest.raises(AbortedError, match="no more"):
        run_op("Abort", error_msg=b"no more")


def test_a_cpu_has_nothing_to_wait_for(run_op: Run) -> None:
    assert not run_op("SyncDevice")


def test_the_gradient_of_tile_sums_the_tiles(run_op: Run) -> None:
    x = np.arange(24).reshape(4, 6)
    (result,) = run_op("TileGrad", x, np.array([2, 3], np.int32))
    np.testing.assert_array_equal(result, x.reshape(2, 2, 3, 2).sum(axis=(0, 2)))


@pytest.mark.parametrize("size", [(30, 41), (7, 90), (64, 3)])
@pytest.mark.parametrize("channels", [1, 3, 40])
def test_large_images_are_resized_in_parts_to_the_same_bits(
    run_op: Run, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int], channels: int
) -> None:
    images = np.random.default_rng(3).random((2, 33, 29, channels)).astype(np.float32)
    modes = {"align_corners": False, "half_pixel_centers": True}
    (whole,) = run_op("ResizeBilinear", images, np.array(size, np.int32), **modes)
    monkeypatch.setattr(image, "_LARGE", 0)
    monkeypatch.setattr(image, "_PART", 1)
    monkeypatch.setattr(image, "cores", lambda: 3)
    (parts,) = run_op("ResizeBilinear", images, np.array(size, np.int32), **modes)
    np.testing.assert_array_equal(whole, parts)


@pytest.mark.parametrize("channels", [3, 31, 32, 40])
def test_channels_are_resized_alike_however_many(run_op: Run, channels: int) -> None:
    images = np.random.default_rng(channels).random((2, 7, 5, channels)).astype(np.float32)
    size = np.array([11, 13], np.int32)
    (whole,) = run_op("ResizeBilinear", images, size)
    assert whole.shape == (2, 11, 13, channels)
    for channel in range(channels):
        (alone,) = run_op("ResizeBilinear", images[..., [channel]], size)
        np.testing.assert_array_equal(whole[..., [channel]], alone)
