"""A launcher over NumPy's memory: kernels as g++ compiles them, the first or the last thread first."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from flowengine.kernels.cuda import elementwise, functions, sources
from flowengine.kernels.cuda.launching import KernelLaunch
from tests.kernels.cuda.host_compiler import HostModule

Floats = np.ndarray[Any, Any]
#: Blocks that are played: a loop over the grid must do the rest.
_BLOCKS = 3


class HostLauncher:
    """Runs kernels on NumPy arrays. What a kernel writes must not depend on the order of its threads."""

    def __init__(
        self, folder: Path, *families: str, changed: Callable[[str], str] = lambda text: text
    ) -> None:
        """`changed` makes another source of that of the families."""
        self._module = HostModule(elementwise.prelude() + changed(sources.source(*families)), folder)
        self.error_record = np.zeros(3, np.int64)
        self.launches: list[KernelLaunch] = []
        #: Whether the last threads go first; None for by turns.
        self.backwards: bool | None = None

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Floats:
        kind = np.dtype(dtype)
        # What is not written shows.
        made: Floats = np.full(math.prod(shape) * kind.itemsize, 0xAB, np.uint8).view(kind)
        return made.reshape(shape)

    def moved_in(self, array: Any) -> Floats:
        return np.ascontiguousarray(array)

    def address(self, array: Floats) -> int:
        assert array.flags.c_contiguous
        return array.ctypes.data

    def launch(self, launch: KernelLaunch, arrays: Sequence[Floats | None]) -> None:
        self.launches.append(launch)
        assert launch.threads & (launch.threads - 1) == 0
        assert launch.blocks > 0
        for array in arrays:
            assert array is None or array.flags.c_contiguous
        self._module.launch(
            launch.name,
            arrays,
            launch.numbers,
            wide=True,
            blocks=min(launch.blocks, _BLOCKS),
            threads=launch.threads,
            backwards=len(self.launches) % 2 == 0 if self.backwards is None else self.backwards,
        )

    def refused(self) -> Any:
        """Return the refusal since the last look, as an error; None if there was none."""
        found = functions.refusal(self.error_record.tolist())
        self.error_record[...] = 0
        return found
