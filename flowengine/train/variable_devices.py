"""The memory of a session's variables: that of the host, or of a device that has its own.

A saver without nodes reads and sets variables directly. It copies values out of the memory of a device, and
restored values into it. The memory of a variable is not known before a step has made the variable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from flowengine.core.arrays import Value
from flowengine.core.errors import FailedPreconditionError, InvalidArgumentError
from flowengine.devices.device import Device
from flowengine.resources.variable import Variable
from flowengine.runtime.streams.completion import brought_out
from flowengine.session import Session
from flowengine.train.saveables import Saveable
from flowengine.train.snapshot import listed


class VariableHome(NamedTuple):
    """A variable, and the device in whose memory it is; None for host memory."""

    variable: Variable
    device: Device | None

    def adopt(self, value: Value) -> None:
        """Take over a value of host memory that the caller lets go of."""
        self.variable.adopt(value if self.device is None else self.device.copy_in(value))


def home_of(session: Session, saveable: Saveable) -> VariableHome | None:
    """Find the memory of a variable; None if no step has made the variable.

    Raises InvalidArgumentError if two devices have a variable of this name, so that the name is ambiguous.
    """
    far = ((session.devices[name], held) for name, held in session.partitions.resources.items())
    found = [
        VariableHome(variable, device)
        for device, resources in ((None, session.resources), *far)
        if (variable := saveable.find(resources)) is not None
    ]
    if len(found) > 1:
        places = " and ".join("host memory" if d is None else d.name for _, d in found)
        raise InvalidArgumentError(
            f"there are {len(found)} variables '{saveable.shared_name}', in {places}: a variable is shared "
            "by its name within one memory only. Place all nodes that name it on one device"
        )
    return found[0] if found else None


def homes_for(session: Session, saveables: Iterable[Saveable]) -> list[VariableHome]:
    """Find the memory of each variable to restore, making those that no step has made in host memory.

    Raises FailedPreconditionError naming them if a device of the session does not share the host's memory.
    """
    homes, unknown = list[VariableHome](), list[str]()
    for saveable in saveables:
        home = home_of(session, saveable)
        if home is not None:
            homes.append(home)
        elif all(device.shares_host_memory for device in session.devices):
            homes.append(VariableHome(saveable.find_or_make(session.resources), None))
        else:
            unknown.append(saveable.node)
    if unknown:
        raise FailedPreconditionError(
            f"no step has made {listed(unknown, 'variable')} yet, so it is not known in which device's "
            "memory to restore: run `session.initialize()` first, or restore by a saver with nodes"
        )
    return homes


async def in_host_memory(
    session: Session, values: Sequence[Value], devices: Sequence[Device | None]
) -> list[Value]:
    """Values of variables in host memory; those of devices are awaited, each device's together.

    If it is cancelled, copies that have begun continue, and their results are dropped.
    """
    result = list(values)
    for device in dict.fromkeys(each for each in devices if each is not None):
        places = [place for place, each in enumerate(devices) if each is device]
        threads = session.config.resolved().worker_threads
        found = await brought_out(device, [values[place] for place in places], uses_threads=threads)
        for place, value in zip(places, found, strict=True):
            result[place] = value
    return result


__all__ = ["VariableHome", "home_of", "homes_for", "in_host_memory"]
