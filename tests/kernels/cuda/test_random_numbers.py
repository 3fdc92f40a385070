"""Philox in CUDA C, compiled for the CPU, gives the numbers of the CPU's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from flowengine.core import dtypes
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError
from flowengine.kernels.common import philox
from flowengine.kernels.cuda import elementwise, random_numbers
from tests.kernels.cuda.host_compiler import HostModule, needs_compiler

#: Seeds and counters, among them such as carry over from the lower half into the upper one.
PLACES = [
    (0, 0),
    (0x0123456789ABCDEF, 7 << 64),
    ((1 << 64) - 1, (5 << 64) + (1 << 64) - 3),
    (42, (1 << 128) - 2),
]
COUNTS = (1, 3, 4, 1001)
FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> HostModule:
    text = elementwise.prelude() + random_numbers.source()
    return HostModule(text, tmp_path_factory.mktemp("random"))


def drawn(module: HostModule, name: str, dtype: DType, count: int, arguments: tuple[int, ...]) -> Any:
    # What lies behind the last number stays as it was.
    result = np.zeros(count + 4, dtype.as_numpy_dtype)
    module.launch(name, [result], arguments, wide=True)
    assert not result[count:].any()
    return result[:count]


@needs_compiler
@pytest.mark.parametrize("distribution", random_numbers.DISTRIBUTIONS)
@pytest.mark.parametrize("dtype", FLOATS, ids=lambda dtype: str(dtype.name))
def test_floats(module: HostModule, distribution: str, dtype: DType) -> None:
    name = random_numbers.float_kernel_name(distribution, dtype)
    for key, start in PLACES:
        for count in COUNTS:
            found = drawn(module, name, dtype, count, random_numbers.numbers(key, start, count))
            wanted = getattr(philox, distribution)(np, key, start, count, dtype)
            if distribution != "uniform" and dtype is dtypes.float64:
                # Sines of large angles are small: the product is as near as its factors.
                np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-15)
            else:
                assert found.tobytes() == wanted.tobytes()


@needs_compiler
@pytest.mark.parametrize("dtype", [dtypes.int32, dtypes.uint32, dtypes.int64, dtypes.uint64], ids=str)
def test_integers(module: HostModule, dtype: DType) -> None:
    name = random_numbers.integer_kernel_name(dtype)
    info = np.iinfo(dtype.as_numpy_dtype)
    for key, start in PLACES:
        for low, high in ((0, 10), (int(info.min), int(info.max)), (-7 if info.min else 7, 1000)):
            given = random_numbers.integer_numbers(key, start, 1001, low, high)
            wanted = philox.uniform_integers(np, key, start, 1001, low, high, dtype)
            assert drawn(module, name, dtype, 1001, given).tolist() == wanted.tolist()
        found = drawn(module, name, dtype, 1001, random_numbers.integer_numbers(key, start, 1001))
        assert found.tolist() == philox.full_integers(np, key, start, 1001, dtype).tolist()


@needs_compiler
def test_how_many_threads_there_are_changes_nothing(module: HostModule) -> None:
    arguments = random_numbers.numbers(3, 4 << 64, 1001)
    results = []
    for blocks, threads in ((1, 1), (7, 32)):
        result = np.zeros(1001, np.float32)
        module.launch(
            "truncated_normal_float32", [result], arguments, wide=True, blocks=blocks, threads=threads
        )
        results.append(result.tobytes())
    assert results[0] == results[1]


def test_what_there_is_no_kernel_for() -> None:
    with pytest.raises(InvalidArgumentError, match="no kernel for gamma numbers of float32"):
        random_numbers.float_kernel_name("gamma", dtypes.float32)
    with pytest.raises(InvalidArgumentError, match="no kernel for normal numbers of int32"):
        random_numbers.float_kernel_name("normal", dtypes.int32)
    with pytest.raises(InvalidArgumentError, match="no kernel for random integers of int8"):
        random_numbers.integer_kernel_name(dtypes.int8)
