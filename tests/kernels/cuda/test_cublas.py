"""cuBLAS through ctypes, against a library of the test's own that multiplies on the host."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.core.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    ResourceExhaustedError,
    UnimplementedError,
)
from flowengine.devices import cuda
from flowengine.kernels.cuda import cublas as binding
from flowengine.kernels.cuda.cublas import Cublas, CublasHandle, MatrixOperand

SOURCE = Path(__file__).with_name("fake_cublas.cpp")
COMPILER = shutil.which("g++")
_REAL = next(library for library in cuda.libraries() if library.name == "cublas")
TYPES = ("float32", "float64", "complex64", "complex128")


class FakeLibrary:
    """The test's cuBLAS, and what it has been called with."""

    def __init__(self, path: Path) -> None:
        self.cublas = Cublas(str(path))
        self._fake = ctypes.CDLL(str(path))
        self._fake.fake_told.restype = ctypes.c_char_p

    def told(self) -> list[str]:
        return str(self._fake.fake_told().decode()).split()

    def forget(self, status: int = 0) -> None:
        """Forget what was called; the next call gives this status."""
        self._fake.fake_forget(status)

    @property
    def handles(self) -> int:
        return int(self._fake.fake_handles())


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> FakeLibrary:
    if COMPILER is None:
        pytest.skip("g++ is not installed")
    path = tmp_path_factory.mktemp("cublas") / "libcublas.so"
    subprocess.run([COMPILER, "-O1", "-shared", "-fPIC", str(SOURCE), "-o", str(path)], check=True)
    return FakeLibrary(path)


@pytest.fixture
def handle(library: FakeLibrary) -> Iterator[CublasHandle]:
    library.forget()
    made = CublasHandle(library.cublas, 77, 4096, binding.WORKSPACE_BYTES)
    yield made
    made.close()
    assert library.handles == 0


def operand(array: np.ndarray[Any, Any], transposed: bool = False, conjugate: bool = False) -> MatrixOperand:
    assert array.flags.c_contiguous
    return MatrixOperand(array.ctypes.data, array.shape, transposed, conjugate)


sizes = st.integers(0, 5)


@given(
    st.tuples(sizes, sizes, sizes),
    st.sampled_from([(1, 1), (3, 3), (1, 3), (3, 1), (0, 0)]),
    st.sampled_from(TYPES),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
    st.integers(0, 2**32 - 1),
)
def test_products_of_rows_by_a_library_of_columns(
    library: FakeLibrary,
    shape: tuple[int, int, int],
    batches: tuple[int, int],
    dtype: str,
    flags: tuple[bool, bool, bool],
    seed: int,
) -> None:
    (m, k, n), (transpose_a, transpose_b, conjugate) = shape, flags
    source = np.random.default_rng(seed)

    def drawn(batch: int, rows: int, columns: int, transposed: bool) -> np.ndarray[Any, Any]:
        own = (batch, columns, rows) if transposed else (batch, rows, columns)
        whole = source.integers(-9, 10, own) + 1j * source.integers(-9, 10, own)
        return np.ascontiguousarray(whole if "complex" in dtype else whole.real).astype(dtype)

    def taken(x: np.ndarray[Any, Any], transposed: bool) -> np.ndarray[Any, Any]:
        turned = x.swapaxes(1, 2) if transposed else x
        return turned.conj() if transposed and conjugate else turned

    a, b = drawn(batches[0], m, k, transpose_a), drawn(batches[1], k, n, transpose_b)
    wanted = taken(a, transpose_a) @ taken(b, transpose_b)
    out = np.full(wanted.shape, np.nan, dtype)
    handle = CublasHandle(library.cublas, 1, 0, 0)
    handle.multiply(
        operand(a, transpose_a, conjugate), operand(b, transpose_b, conjugate), out.ctypes.data, dtype
    )
    handle.close()
    assert out.tolist() == wanted.tolist()


def test_a_handle_has_one_stream_a_workspace_and_full_sums(
    library: FakeLibrary, handle: CublasHandle
) -> None:
    assert library.told() == ["create", "stream:77", f"workspace:4096:{32 << 20}", "mode:16"]
    assert handle.version == 130100
    library.forget()
    handle.close()
    handle.close()
    assert library.told() == ["destroy"]
    matrix = np.ones((2, 2), np.float32)
    with pytest.raises(FailedPreconditionError, match="has been closed"):
        handle.multiply(operand(matrix), operand(matrix), matrix.ctypes.data, "float32")


@pytest.mark.parametrize(
    ("dtype", "tensor_float_32", "told"),
    [
        ("float32", False, "gemm:0:68"),
        ("float32", True, "gemm:0:77"),
        ("float64", True, "gemm:1:70"),
        ("float16", True, "gemm:2:68"),
        ("bfloat16", False, "gemm:14:68"),
        ("complex64", True, "gemm:4:68"),
    ],
)
def test_what_products_are_computed_in(
    library: FakeLibrary, dtype: str, tensor_float_32: bool, told: str
) -> None:
    made = CublasHandle(library.cublas, 1, 0, 0, tensor_float_32=tensor_float_32)
    matrix = np.ones((2, 2), np.complex128)
    library.forget()
    made.multiply(operand(matrix), operand(matrix), np.empty_like(matrix).ctypes.data, dtype)
    assert library.told() == [told]
    made.close()


@pytest.mark.parametrize(
    ("status", "error", "text"),
    [
        (3, ResourceExhaustedError, "gave 3: it could not allocate memory"),
        (13, InternalError, "gave 13: a kernel failed on the card"),
        (15, UnimplementedError, "gave 15: it does not do this"),
        (99, InternalError, "gave 99: a status that is not known"),
    ],
)
def test_statuses_become_errors(
    library: FakeLibrary, handle: CublasHandle, status: int, error: type[OpError], text: str
) -> None:
    matrix = np.ones((2, 2), np.float32)
    library.forget(status)
    with pytest.raises(error, match=f"cuBLAS: cublasGemmStridedBatchedEx {text}"):
        handle.multiply(operand(matrix), operand(matrix), matrix.ctypes.data, "float32")
    handle.multiply(operand(matrix), operand(matrix), np.empty_like(matrix).ctypes.data, "float32")


def test_a_handle_that_is_not_made_leaves_nothing_behind(library: FakeLibrary) -> None:
    class FailsLater(Cublas):
        def __init__(self) -> None:
            """The fake's functions."""

        def call(self, name: str, *arguments: Any) -> None:
            if name == "cublasSetWorkspace_v2":
                library.forget(3)
            library.cublas.call(name, *arguments)

    library.forget(1)
    with pytest.raises(InternalError, match="cublasCreate_v2 gave 1: it was not initialized"):
        CublasHandle(library.cublas, 1, 0, 0)
    with pytest.raises(ResourceExhaustedError, match="cublasSetWorkspace_v2 gave 3"):
        CublasHandle(FailsLater(), 1, 0, 0)
    assert library.handles == 0


def test_what_is_refused_before_it_is_called(library: FakeLibrary, handle: CublasHandle) -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((2, 4), np.float32)
    library.forget()
    with pytest.raises(InvalidArgumentError, match=r"\[2, 3\] and \[2, 4\] do not fit: 2 x 3 by 2 x 4"):
        handle.multiply(operand(a), operand(b), 0, "float32")
    with pytest.raises(InvalidArgumentError, match="2 by 3 times"):
        handle.multiply(operand(np.ones((2, 1, 1))), operand(np.ones((3, 1, 1))), 0, "float64")
    with pytest.raises(InvalidArgumentError, match="no matrices of int32: float16"):
        handle.multiply(operand(a), operand(a, True), 0, "int32")
    with pytest.raises(InvalidArgumentError, match="too large for cuBLAS"):
        handle.multiply(MatrixOperand(0, (1 << 31, 1)), MatrixOperand(0, (1, 1)), 0, "float32")
    assert library.told() == []


def test_without_cublas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    binding.cublas.cache_clear()
    with pytest.raises(FailedPreconditionError, match="install the distribution nvidia-cublas"):
        binding.cublas()
    with pytest.raises(FailedPreconditionError, match="cannot be used as cuBLAS"):
        Cublas(str(tmp_path / "nothing.so"))


@pytest.mark.skipif(
    not _REAL.path, reason=f"cuBLAS is missing: install the distribution {_REAL.distribution}"
)
def test_the_library_has_every_function_and_says_that_there_is_no_card() -> None:
    found = Cublas(_REAL.path)
    if cuda.search().cards:
        pytest.skip("there is a card")
    with pytest.raises(InternalError, match="cublasCreate_v2 gave 1"):
        CublasHandle(found, 0, 0, 0)


def test_what_is_prepared_for_shapes_multiplies_whatever_lies_so(
    library: FakeLibrary, handle: CublasHandle
) -> None:
    source = np.random.default_rng(3)
    shapes = (2, 3, 4), (2, 4, 2)
    prepared = handle.prepared(MatrixOperand(0, shapes[0]), MatrixOperand(0, shapes[1]), "float64")
    library.forget()
    for _ in range(3):
        a, b = (source.integers(-9, 10, shape).astype(np.float64) for shape in shapes)
        out = np.full((2, 3, 2), np.nan)
        prepared.run(a.ctypes.data, b.ctypes.data, out.ctypes.data)
        assert out.tolist() == (a @ b).tolist()
    assert library.told() == ["gemm:1:70"] * 3
    nothing = handle.prepared(MatrixOperand(0, (0, 3)), MatrixOperand(0, (3, 2)), "float64")
    nothing.run(0, 0, 0)
    assert len(library.told()) == 3
    handle.close()
    for product in (prepared, nothing):
        with pytest.raises(FailedPreconditionError, match="has been closed"):
            product.run(0, 0, 0)
