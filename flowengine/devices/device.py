"""Devices: what places a kernel runs in, and how a new kind of place is added.

A device has a complete name, an array module for its kernels, memory, and methods that copy values into that
memory and out of it. `DEVICES` is the registry of device types; a `DeviceSet` is the devices of one session.

    DEVICES.register("GPU", make=..., count=lambda: number_of_gpus())
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeGuard, runtime_checkable

from flowengine.core.arrays import Value
from flowengine.core.dtypes import DType
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.core.names import DeviceName
from flowengine.devices.allocation import Ledger

if TYPE_CHECKING:
    from flowengine.devices.launch_record import LaunchRecord
    from flowengine.devices.ordering import StreamEvent
    from flowengine.devices.rates import DeviceRates

#: The task that a session without a cluster is.
LOCAL_TASK: Final = "/job:localhost/replica:0/task:0"


class Device(Protocol):
    """One place where kernels run.

    name          complete, such as `/job:localhost/replica:0/task:0/device:CPU:1`
    type          "CPU", "GPU", ...: the type for which kernels are registered
    incarnation   a number that differs from those of earlier devices of this name
    xp            the array module that kernels get
    ledger        the allocations in its memory, with the limit
    shares_host_memory   whether its arrays are NumPy arrays in host memory
    """

    @property
    def name(self) -> str: ...

    @property
    def type(self) -> str: ...

    @property
    def incarnation(self) -> int: ...

    @property
    def xp(self) -> Any: ...

    @property
    def ledger(self) -> Ledger: ...

    @property
    def shares_host_memory(self) -> bool: ...

    def holds(self, dtype: DType, listed: bool = False) -> bool:
        """Whether values of a type can be in this device's memory.

        `listed` says that the kernel in question names the type among those that it takes.
        """

    def copy_in(self, value: Value) -> Value:
        """Copy a value from host memory to this device; return anything but an array unchanged."""

    def copy_out(self, value: Value) -> Value:
        """A value of this device's memory as a NumPy array or scalar, when what computes it is done."""

    def owner_of(self, value: Value) -> tuple[Any, int] | None:
        """The object that owns the memory of one of this device's arrays, and its bytes; None for what
        owns none: a number, a view of foreign memory. Objects must allow weak references."""

    def synchronize(self) -> None:
        """Wait until everything launched on the device is done."""


class IncomingValue(Protocol):
    """A value on its way to host memory.

    event   the end of the copy
    """

    @property
    def event(self) -> StreamEvent: ...

    def value(self) -> Value:
        """The value, as a NumPy array or scalar. Only once the event has happened."""


@runtime_checkable
class LentCopy(IncomingValue, Protocol):
    """One that is written to memory of which there is little, such as pinned memory: `value` copies it."""

    def lent(self) -> Value:
        """The value as it lies in that memory, which is kept as long as the value is: let go of it soon."""


@runtime_checkable
class StreamDevice(Device, Protocol):
    """A device that executes its work asynchronously, on its own streams.

    Steps wait for copies to the host by these methods, without blocking the event loop: another thread calls
    `wait`, while the thread of the loop launches more work.
    """

    def computing(self) -> AbstractContextManager[None]:
        """Around the call of a kernel: what it launches on this thread is given to this device."""

    def start_copy_out(self, value: Value) -> IncomingValue | None:
        """Launch the copy of a value to host memory; None for what is no array of this device."""

    def is_done(self, event: StreamEvent) -> bool:
        """Whether an event has happened. Raises what went wrong before it."""

    def wait(self, event: StreamEvent) -> None:
        """Stand still until an event has happened. Raises what went wrong before it."""

    def unfinished(self) -> Sequence[StreamEvent]:
        """The ends of all that was given to the device and is not known to be done."""


@runtime_checkable
class EnteredDevice(StreamDevice, Protocol):
    """A device to enter which takes the host long beside a launch: a row of kernels enters it once."""

    def entered(self) -> AbstractContextManager[None]:
        """Around the calls of several kernels on this thread, each of them within `computing()` as well.

        It raises no error; if the device has failed, the kernels raise errors that name nodes.
        """


@runtime_checkable
class TimedDevice(StreamDevice, Protocol):
    """A device that records when it executed its work."""

    def note(self, launches: list[LaunchRecord] | None, node: str) -> None:
        """Have what is launched next, on this thread, noted as work of a node when it is done; None: not."""


@runtime_checkable
class RatedDevice(Device, Protocol):
    """A device that knows how fast it is, so that placement need not find out.

    rates   read when placement looks at the session's devices
    """

    @property
    def rates(self) -> DeviceRates: ...


@runtime_checkable
class MortalDevice(Device, Protocol):
    """A device that an error can end, and that another one can follow.

    lost   the error that has ended it, as a text; empty before. Each later call raises UnavailableError
    """

    @property
    def lost(self) -> str: ...

    def successor(self) -> Device | None:
        """A device of the same name for after this one: another incarnation, and nothing in its memory.

        None as long as it cannot be made. The session calls it again when a later step fails.
        """


@runtime_checkable
class ProvidedDevice(Device, Protocol):
    """A device with its own kernel provider, which takes over parts of graphs; see `kernels/provider.py`.

    provider   a folder of `kernels/`, or the complete name of a package, whose module `claims` has `PROVIDER`
    """

    @property
    def provider(self) -> str: ...


#: Makes one device: from its complete name and the limit of its memory in bytes.
MakeDevice = Callable[[str, int | None], Device]


class DeviceRegistry:
    """Device types: how many there are of each, and how one is made."""

    def __init__(self, parent: DeviceRegistry | None = None) -> None:
        self._parent = parent
        self._types: dict[str, tuple[MakeDevice, Callable[[], int]]] = (
            {} if parent is None else dict(parent._types)
        )

    def register(self, kind: str, make: MakeDevice, count: Callable[[], int] = lambda: 0) -> None:
        """Add a type, or replace one. `count()` says how many a session has that does not say itself.

        Raises InvalidArgumentError for a name that is no device type.
        """
        if not kind.isidentifier() or kind != kind.upper():
            raise InvalidArgumentError(f"{kind!r} is not a device type: write it as 'CPU' or 'GPU'")
        self._types[kind] = (make, count)

    @property
    def types(self) -> Sequence[str]:
        return tuple(self._types)

    def look_for(self, kinds: Iterable[str]) -> list[str]:
        """Return the device types that were unknown until now and that a plugin offers."""
        return [kind for kind in dict.fromkeys(kinds) if kind not in self._types and self._is_offered(kind)]

    def why_not(self, kind: str) -> str:
        """Return why there is no device of an unknown type, or empty if the reason is not known."""
        return "" if self._parent is None else self._parent.why_not(kind)

    def _is_offered(self, kind: str) -> bool:
        """Whether a plugin offers an unknown type; registers the type if so."""
        parent = self._parent
        if parent is None or (kind not in parent._types and not parent._is_offered(kind)):
            return False
        self._types[kind] = parent._types[kind]
        return True

    def make(
        self,
        counts: Mapping[str, int] | None = None,
        memory_limits: Mapping[str, int] | None = None,
        *,
        task: str = LOCAL_TASK,
    ) -> DeviceSet:
        """Return new devices of every type: `counts[type]` of them, by default the type's own number.

        memory_limits   {type or device name, partial or not: bytes}; the most precise name counts

        Raises InvalidArgumentError for an unknown type, a count below zero, or no CPU at all.
        """
        for kind, wanted in (counts or {}).items():
            if kind not in self._types and not self._is_offered(kind):
                why = self.why_not(kind)
                raise InvalidArgumentError(
                    f"device_count has the unknown device type {kind!r}; there are {', '.join(self._types)}"
                    + (f". There is no {kind}: {why}" if why else "")
                )
            if wanted < 0 or (kind == "CPU" and not wanted):
                raise InvalidArgumentError(f"device_count={{'{kind}': {wanted}}}: the count is too small")
        self.look_for(kind for text in memory_limits or () if (kind := _type_in(text)))
        return DeviceSet(self.make_some(self._types, counts, memory_limits, task=task))

    def make_some(
        self,
        kinds: Iterable[str],
        counts: Mapping[str, int] | None = None,
        memory_limits: Mapping[str, int] | None = None,
        *,
        task: str = LOCAL_TASK,
    ) -> list[Device]:
        """New devices of these types, which must be known; otherwise as `make`."""
        limits = [(_pattern(text, self._types), size) for text, size in (memory_limits or {}).items()]
        devices: list[Device] = []
        for kind in kinds:
            make, count = self._types[kind]
            number = count() if counts is None or kind not in counts else counts[kind]
            for index in range(number):
                name = f"{task}/device:{kind}:{index}"
                devices.append(make(name, _limit(DeviceName.parse(name), limits)))
        return devices


def _type_in(text: str) -> str:
    """The type that a setting names as `TPU`, `TPU:1` or `/device:TPU:1`; "" if it cannot be read."""
    head = text.partition(":")[0]
    if head.isidentifier():
        return head
    try:
        return DeviceName.parse(text).type or ""
    except InvalidArgumentError:
        return ""


def _pattern(text: str, types: Iterable[str]) -> DeviceName:
    if text in types:
        return DeviceName(type=text)
    head, colon, _ = text.partition(":")
    return DeviceName.parse(f"/device:{text}" if colon and head in types else text)


def _limit(name: DeviceName, limits: Sequence[tuple[DeviceName, int]]) -> int | None:
    fitting = [(_precision(pattern), size) for pattern, size in limits if pattern.matches(name)]
    return max(fitting)[1] if fitting else None


def _precision(name: DeviceName) -> int:
    return sum(part is not None for part in (name.job, name.replica, name.task, name.type, name.index))


def is_lost(device: Device) -> TypeGuard[MortalDevice]:
    """Return whether an error has ended a device that can have a successor."""
    # The cheapest check comes first: a session calls this before each plan, nearly always for a CPU.
    return bool(getattr(device, "lost", "")) and isinstance(device, MortalDevice)


class DeviceSet:
    """The devices that a session may place nodes on, in the order of preference."""

    def __init__(self, devices: Sequence[Device]) -> None:
        """Raises InvalidArgumentError if two have one name, or none is a CPU of this process."""
        self._devices: tuple[Device, ...] = ()
        self._by_name: dict[str, Device] = {}
        self.extend(devices)
        found = next((device for device in devices if device.type == "CPU"), None)
        if found is None:
            raise InvalidArgumentError("a session needs at least one CPU device")
        #: Where a node goes that nothing calls elsewhere: the first CPU.
        self.default: Device = found

    def extend(self, devices: Sequence[Device]) -> None:
        """Add devices behind those there are; InvalidArgumentError if two have one name."""
        self._devices += tuple(devices)
        self._by_name = {device.name: device for device in self._devices}
        if len(self._by_name) != len(self._devices):
            raise InvalidArgumentError(
                "two devices have the same name: " + ", ".join(device.name for device in self._devices)
            )

    def renew(self) -> bool:
        """Put successors in the place of devices that are lost and can have one; whether there were any."""
        before = self._devices
        for device in before:
            following = device.successor() if is_lost(device) else None
            if following is not None:
                self._devices = tuple(following if each is device else each for each in self._devices)
                self._by_name[device.name] = following
        return self._devices is not before

    def matching(self, constraint: str | DeviceName) -> list[Device]:
        """The devices that fulfil a partial name: "" all, "/device:GPU:*" every GPU."""
        wanted = DeviceName.parse(constraint) if isinstance(constraint, str) else constraint
        return [device for device in self._devices if wanted.matches(DeviceName.parse(device.name))]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._by_name)

    @property
    def incarnations(self) -> Mapping[str, int]:
        """{name: number of its present life}, in the order of the devices."""
        return {device.name: device.incarnation for device in self._devices}

    @property
    def types(self) -> tuple[str, ...]:
        """Each type once, in the order of the devices."""
        return tuple(dict.fromkeys(device.type for device in self._devices))

    def __getitem__(self, name: str) -> Device:
        """The device of a complete name; NotFoundError, listing those there are, if there is none."""
        try:
            return self._by_name[name]
        except KeyError:
            raise NotFoundError(
                f"there is no device '{name}'; there are {', '.join(self._by_name)}"
            ) from None

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __iter__(self) -> Iterator[Device]:
        return iter(self._devices)

    def __len__(self) -> int:
        return len(self._devices)


__all__ = [
    "LOCAL_TASK",
    "Device",
    "DeviceRegistry",
    "DeviceSet",
    "EnteredDevice",
    "LentCopy",
    "MakeDevice",
    "MortalDevice",
    "ProvidedDevice",
    "RatedDevice",
    "TimedDevice",
    "is_lost",
]
