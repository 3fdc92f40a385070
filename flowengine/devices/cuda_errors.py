"""CuPy's errors as ours; what ends a card's context is remembered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from flowengine.core.errors import InternalError, OpError, UnavailableError
from flowengine.devices import cuda


class CudaErrors:
    """The errors of one device.

    kinds   CuPy's types of errors of CUDA
    lost    the error that has ended the context, as a text; empty before
    """

    def __init__(self, device: str, cupy: Any) -> None:
        """`device` is the complete name, `cupy` CuPy's module."""
        self.kinds: Final[tuple[type[BaseException], ...]] = (
            cupy.cuda.runtime.CUDARuntimeError,
            cupy.cuda.driver.CUDADriverError,
        )
        self.lost = ""
        self._device = device

    def check(self) -> None:
        """UnavailableError once the context has ended."""
        if self.lost:
            raise UnavailableError(self.lost)

    @contextmanager
    def translated(self) -> Iterator[None]:
        """Raises `check`'s error, and CuPy's as ours."""
        self.check()
        try:
            yield
        except self.kinds as error:
            raise self.ours(error) from None

    def ours(self, error: Any) -> OpError:
        """An error of CuPy's as ours: UnavailableError if it ends the context, else InternalError."""
        text = f"{self._device}: {error}"
        if error.status not in cuda.ENDS_CONTEXT:
            return InternalError(text)
        self.lost = (
            f"{text}: what was launched before has ended the CUDA context of this process, and all values on "
            "the card are lost"
        )
        return UnavailableError(self.lost)


__all__ = ["CudaErrors"]
