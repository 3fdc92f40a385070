"""A record of one piece of a device's work: its kind, its stream and its times."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: The stream of kernels.
WORK_STREAM: Final = "compute"


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """One piece of work of a device.

    node     the name of its node; of a copy for the caller, the name of the fetch; of several nodes that are
             one launch, the last one
    what     the function that was computed, "copy in" or "copy out"; "work" if the device does not know the
             function
    device   its complete name
    stream   "compute", "copy in", "copy out", or the number of another one as "stream 3"
    began, ended   seconds by a clock of the device, of which only differences mean anything
    """

    node: str
    what: str
    device: str
    stream: str
    began: float
    ended: float


__all__ = ["WORK_STREAM", "LaunchRecord"]
