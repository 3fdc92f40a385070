"""Records of ops that our CUDA C computes: on CUDA's device, with the sources as g++ compiles them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final
from zlib import crc32

import numpy as np
import pytest

import flowengine as fe
from flowengine.core.arrays import to_array
from flowengine.core.errors import OpError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.kernels.common.checks import gathered
from flowengine.kernels.context import KernelContext
from flowengine.kernels.cuda.card_kernels import served
from flowengine.kernels.cuda.functions import ELEMENTWISE
from flowengine.kernels.cuda.serving import PROVIDER_NAME
from flowengine.kernels.load import registry
from flowengine.resources.container import ResourceManager, StepContainer
from flowengine.runtime.planning.hardware import kernels_on
from tests.devices.cuda_by_host import (
    compile_by_host,
    compiled_cublas,
    convolve_by_host,
    multiply_by_host,
)
from tests.devices.fake_cupy import FakeCupy
from tests.kernels.cuda.host_compiler import needs_compiler
from tests.oprecords.record import Built, OpRecord
from tests.oprecords.strict import differences, held_types
from tests.oprecords.test_on_strict_arrays import OF_NUMBERS

pytestmark = needs_compiler

GPU: Final = "/job:localhost/replica:0/task:0/device:GPU:0"
#: By all values of all types: elementwise nodes are tried in `tests/kernels/cuda/test_elementwise.py`.
_RECORDS: Final = [
    record
    for record in OF_NUMBERS
    if record.op in served() and record.op not in ELEMENTWISE - {"BiasAdd", "BiasAddV1"}
]
_TYPES_MAX: Final = 3


@pytest.fixture(autouse=True)
def _compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compile_by_host(monkeypatch)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture(scope="module")
def cublas_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled_cublas(tmp_path_factory.mktemp("cublas"))


@pytest.fixture
def multiply(cublas_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[FakeCupy], object]:
    """Gives a stand-in its cuBLAS and cuDNN."""

    def give(fake: FakeCupy) -> None:
        multiply_by_host(monkeypatch, cublas_path, fake)
        convolve_by_host(monkeypatch, fake)

    return give


class CardRun:
    """One call of the kernel that a session on the card would bind for a node."""

    def __init__(self, built: Built, seed: int, multiply: Callable[[FakeCupy], object]) -> None:
        self.fake = FakeCupy(seed)
        multiply(self.fake)
        self._device = device = CudaDevice(GPU, self.fake)
        self._node = built.node
        self.kernel = kernels_on(registry("numpy"), device).find(built.node)
        self._inputs = [tuple(value) if isinstance(value, list) else value for value in built.inputs]

    def outputs(self) -> tuple[Any, ...]:
        """Return the kernel's outputs in host memory; raise the error with which it refuses."""
        device = self._device
        context = KernelContext(
            resources=ResourceManager(), step_container=StepContainer(), device=GPU, hardware=device
        )
        with gathered():
            result = self.kernel.bind(self._node)(*self._inputs, ctx=context)
        values = result if isinstance(result, tuple) else (result,)
        found = tuple(to_array(device.copy_out(value)) for value in values)
        self.fake.gpu.check()
        return found


def near(built: Built) -> Sequence[Any]:
    kernel = registry("numpy").find(built.node)
    call = kernel.bind(built.node)
    context = KernelContext(resources=ResourceManager(), step_container=StepContainer())
    given: dict[str, Any] = {"ctx": context} if kernel.takes_context else {}
    with np.errstate(all="ignore"):
        result = call(
            *(tuple(value) if isinstance(value, list) else value for value in built.inputs), **given
        )
    return [to_array(value) for value in (result if isinstance(result, tuple) else (result,))]


@pytest.mark.parametrize("record", _RECORDS, ids=lambda record: record.op)
def test_has_the_values_of_the_cpu(record: OpRecord, multiply: Callable[[FakeCupy], object]) -> None:
    seed, launched, tried = crc32(record.op.encode()), 0, 0
    for types in list(held_types(record))[:_TYPES_MAX]:
        for sample in record.samples:
            built = Built(fe.Graph(), record, sample, types, "known", "node")
            run = CardRun(built, seed + tried, multiply)
            if run.kernel.provider != PROVIDER_NAME:
                continue
            tried += 1
            pairs = zip(run.outputs(), near(built), strict=True)
            assert [text for far, cpu in pairs if (text := differences(record, far, cpu))] == []
            launched += len(run.fake.launched)
    assert launched
    assert tried


@pytest.mark.parametrize("record", _RECORDS, ids=lambda record: record.op)
def test_refuses_what_the_cpu_refuses(record: OpRecord, multiply: Callable[[FakeCupy], object]) -> None:
    for types in list(held_types(record))[:1]:
        for sample in record.bad:
            built = Built(fe.Graph(), record, sample, types, "unknown", "node")
            run = CardRun(built, 1, multiply)
            if run.kernel.provider != PROVIDER_NAME:
                continue
            with pytest.raises((OpError, ValueError)) as told:
                run.outputs()
            with pytest.raises((OpError, ValueError)) as wanted:
                near(built)
            assert type(told.value) is type(wanted.value)
