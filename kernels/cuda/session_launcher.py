"""The launcher of sessions: arrays of CuPy, the stream that CuPy is on, modules compiled as they are needed.

    launcher = modules_of(device).launcher("softmax")
    softmax(launcher, logits)                         # within `device.computing()`

A family's kernels of a type are compiled when the first of them is launched, or read from disk
(`compiling.py`). What a kernel refuses is a check of the call that launched it (`kernels/common/checks.py`):
it is looked at before anything leaves the step.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from flowengine.core.arrays import Array
from flowengine.core.errors import OpError
from flowengine.devices.cuda_device import CudaDevice
from flowengine.kernels.common.checks import refuse
from flowengine.kernels.cuda import compiling, functions, sources
from flowengine.kernels.cuda.elementwise import ElementwiseSource
from flowengine.kernels.cuda.launching import KernelLaunch

#: CuPy's function of a module: (grid, block, arguments), on the current stream.
CardFunction = Callable[[tuple[int, ...], tuple[int, ...], tuple[Any, ...]], None]
_INT64_END: Final = 1 << 63
#: What a device keeps them as.
_KEPT: Final = "modules"


class CardModules:
    """The compiled modules of one device, by family and by chain. For any thread."""

    def __init__(self, device: CudaDevice) -> None:
        self.device: Final = device
        #: {(family, type): CuPy's module}
        self._families: dict[tuple[str, str], Any] = {}
        self._chains: dict[str, CardFunction] = {}
        #: One thread compiles; another may launch what it has begun to need meanwhile.
        self._lock = threading.Lock()

    def launcher(self, family: str) -> SessionLauncher:
        """The launcher of a family's kernels; see `sources.FAMILIES`."""
        return SessionLauncher(self, family)

    def of_family(self, family: str, dtype: str) -> Any:
        """CuPy's module of a family for a type of `sources.type_of`. Raises what `compile_module` does."""
        found = self._families.get((family, dtype))
        if found is None:
            with self._lock:
                found = self._families.get((family, dtype))
                if found is None:
                    found = self._loaded(sources.source(family, only=dtype))
                    self._families[family, dtype] = found
        return found

    def chain(self, source: ElementwiseSource) -> CardFunction:
        """The function of a chain's source. Raises what `compile_module` does."""
        found = self._chains.get(source.name)
        if found is None:
            with self._lock:
                found = self._chains.get(source.name)
                if found is None:
                    module = self._loaded(source.text)
                    found = self._chains[source.name] = module.get_function(source.name)
        return found

    def _loaded(self, text: str) -> Any:
        cupy = self.device.xp
        architecture = f"sm_{cupy.cuda.Device().compute_capability}"
        module = cupy.cuda.function.Module()
        module.load(compiling.compile_module([text], architecture))
        return module


def modules_of(device: CudaDevice) -> CardModules:
    """Return the compiled modules of a device, kept as long as it lives."""
    found = device.kept.get(_KEPT)
    if found is None:
        found = device.kept.setdefault(_KEPT, CardModules(device))
    assert isinstance(found, CardModules)
    return found


class SessionLauncher:
    """Keeps `launching.Launcher` for the kernels of one family. Use it within the device's `computing()`."""

    def __init__(self, modules: CardModules, family: str) -> None:
        self.device: Final = modules.device
        self.xp: Final[Any] = modules.device.xp
        self._modules = modules
        self._family = family
        self._functions: dict[str, CardFunction] = {}

    @property
    def error_record(self) -> Array:
        """A new record, which is looked at before anything leaves the step."""
        return self.record(functions.refusal)

    def record(self, error: Callable[[Sequence[int]], OpError | None]) -> Array:
        """A new record; `error` makes its error from (code, value, place) if a kernel refuses a value."""
        record: Any = self.xp.zeros(3, np.int64)

        def refusal_error() -> OpError:
            found = error(self.device.copy_out(record).tolist())
            assert found is not None, "a record that refuses nothing has an error"
            return found

        # A code other than 0 is true. This is a view, so it launches nothing.
        refuse(record[:1].reshape(()), refusal_error)
        return record  # type: ignore[no-any-return]

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array that holds anything, of the device's pool."""
        made: Array = self.xp.empty(shape, dtype)
        return made

    def moved_in(self, array: Any) -> Array:
        """A NumPy array in the device's memory; work waits for the copy."""
        moved: Array = self.device.copy_in(np.ascontiguousarray(array))
        return moved

    def address(self, array: Array) -> int:
        """Return the address of an array in the device's memory."""
        return address_of(array)

    def launch(self, launch: KernelLaunch, arrays: Sequence[Array | None]) -> None:
        """Enqueue a kernel; InternalError where NVRTC refuses its family."""
        function = self._functions.get(launch.name)
        if function is None:
            family = self._family
            module = self._modules.of_family(family, sources.type_of(family, launch.name))
            function = self._functions[launch.name] = module.get_function(launch.name)
        addresses = [0 if array is None else address_of(array) for array in arrays]
        numbers = [_signed(number) for number in launch.numbers]
        function((launch.blocks,), (launch.threads,), (*addresses, *numbers))


def address_of(array: Any) -> int:
    """Return the address of a CuPy array in the device's memory."""
    address: int = array.data.ptr
    return address


def _signed(number: int) -> int:
    """A number of 64 bits as CuPy takes whole numbers: as a signed one."""
    return number - 2 * _INT64_END if number >= _INT64_END else number


__all__ = ["CardFunction", "CardModules", "SessionLauncher", "address_of", "modules_of"]
