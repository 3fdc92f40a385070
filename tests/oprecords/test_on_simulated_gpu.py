"""Records on a GPU whose streams run late: the values of the CPU, and no access too early."""

from __future__ import annotations

from typing import Final
from zlib import crc32

import pytest

from flowengine.kernels.load import registry
from flowengine.testing.strict_arrays import StrictModule
from tests.oprecords.record import OpRecord
from tests.oprecords.strict import findings
from tests.oprecords.test_on_strict_arrays import EXCUSED, OF_NUMBERS
from tests.tools.simulated_gpu import SimulatedGpu

#: Ops whose kernels must look at values, and say so: an event loop does not stand still for them.
_LOOKING: Final = frozenset(kernel.op for kernel in registry() if kernel.looks)
_ON_A_DEVICE: Final = [record for record in OF_NUMBERS if record.op not in EXCUSED or record.op in _LOOKING]
#: So many ops run there at least.
_ENOUGH: Final = 509
#: Types tried of each: what runs late goes by memory, not by types.
_TYPES_MAX: Final = 2


@pytest.mark.parametrize("record", _ON_A_DEVICE, ids=lambda record: record.op)
def test_has_the_values_of_the_cpu_however_late(record: OpRecord) -> None:
    gpus: list[SimulatedGpu] = []

    def new_module() -> StrictModule:
        seed = crc32(record.op.encode()) + len(gpus)
        gpus.append(SimulatedGpu("/job:localhost/replica:0/task:0/device:GPU:0", seed=seed))
        module: StrictModule = gpus[-1].xp
        return module

    found = findings(record, new_module, _TYPES_MAX)
    if record.op in _LOOKING:
        assert any("read by the host" in text for text in found)
    assert [text for text in found if record.op not in _LOOKING or "read by the host" not in text] == []
    for gpu in gpus:
        gpu.check()


def test_enough_ops_run_there() -> None:
    assert len(_ON_A_DEVICE) >= _ENOUGH
