"""The scopes around the construction of a node: name scopes, devices and control dependencies.

A `Scopes` belongs to one graph. Its context managers nest, and restore the scopes before them, also after an
exception.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from flowengine.core.errors import InvalidArgumentError
from flowengine.core.names import DeviceName, is_valid_node_name
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError, at_construction

if TYPE_CHECKING:
    from flowengine.graphs.control.contexts import ControlContext
    from flowengine.graphs.tensor import Operation, Tensor

    #: Returns the device that an operation requests; the operation has the request of inner scopes.
    DeviceFunction = Callable[[Operation], str | DeviceName | None]
    #: An argument of `graph.device`.
    DeviceScope = str | DeviceName | DeviceFunction | None


def filled(device: str | DeviceName, outer: str) -> str:
    """A device's name with the parts that it leaves open filled by another."""
    try:
        name = device if isinstance(device, DeviceName) else DeviceName.parse(device)
    except InvalidArgumentError as error:
        raise at_construction(error) from None
    return str(name.merge_with(DeviceName.parse(outer)))


class Scopes:
    """The name prefix, device and control inputs that the next node gets."""

    def __init__(self, taken: Container[str]) -> None:
        self._taken = taken
        self._used: dict[str, int] = {}
        #: The current name scope, with its trailing slash, or empty.
        self.prefix = ""
        #: The device that the next node requests by the scopes within the innermost function, or empty.
        self.device = ""
        #: The functions that choose a device, innermost first, each with the device of the scopes around it.
        self.deciders: tuple[tuple[DeviceFunction, str], ...] = ()
        #: The names of the nodes that must run before the next node.
        self.control_inputs: tuple[str, ...] = ()
        #: Names of the nodes with which the next node shares its device.
        self.colocation: tuple[str, ...] = ()
        #: The node that a node without inputs waits for, so that it runs where that does; or empty.
        self.pivot = ""
        #: {op: the name of the gradient function of its next nodes}
        self.gradient_names: dict[str, str] = {}
        #: The recomputed segment to which the next nodes belong, or empty.
        self.segment = b""
        #: Returns the tensor that a constructor takes for its argument; None outside of branches and loops.
        self.bring: Callable[[Tensor], Tensor] | None = None
        #: The branch or loop to which the next node belongs, or None.
        self.context: ControlContext | None = None

    def unique_name(self, name: str) -> str:
        """The name in the current scope, made unique by `_1`, `_2`, ...; `name/` means exactly `name`."""
        if not isinstance(name, str):
            raise ConstructionTypeError(f"the name of a node must be a str, not {name!r}")
        if name.endswith("/"):
            full = name[:-1]
            if not is_valid_node_name(full):
                raise ConstructionValueError(f"{full!r} cannot be the name of a node")
            self._used.setdefault(full.lower(), 1)
            return full
        if not is_valid_node_name(name, internal=bool(self.prefix)):
            raise ConstructionValueError(
                f"{name!r} cannot be the name of a node: use letters, digits and any of . _ - / \\ >"
            )
        return self.unique(self.prefix + name)

    def unique(self, full: str) -> str:
        """A complete name, made unique."""
        # Names differ in more than case, so that files made of them can live on any file system.
        key = full.lower()
        count = self._used.get(key, 0)
        if count == 0 and full not in self._taken:
            self._used[key] = 1
            return full
        count = max(count, 1)
        candidate = f"{full}_{count}"
        while candidate.lower() in self._used or candidate in self._taken:
            count += 1
            candidate = f"{full}_{count}"
        self._used[key] = count + 1
        self._used[candidate.lower()] = 1
        return candidate

    @contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        before = self.prefix
        if not name:
            self.prefix = ""
        elif name.endswith("/"):
            self.prefix = name
        else:
            self.prefix = self.unique_name(name) + "/"
        try:
            yield self.prefix
        finally:
            self.prefix = before

    @contextmanager
    def on_device(self, device: DeviceScope) -> Iterator[None]:
        before = self.device, self.deciders
        if device is None:
            self.device, self.deciders = "", ()
        elif isinstance(device, str | DeviceName):
            self.device = filled(device, self.device)
        elif callable(device):
            self.device, self.deciders = "", ((device, self.device), *self.deciders)
        else:
            raise ConstructionTypeError(
                f"{device!r} is no device: give a name, a function of an operation, or None"
            )
        try:
            yield
        finally:
            self.device, self.deciders = before

    @contextmanager
    def alone_on(self, device: str) -> Iterator[None]:
        """On exactly this device, or where the scopes say if it is empty, and beside nothing."""
        before = self.device, self.deciders, self.colocation
        self.colocation = ()
        if device:
            self.device, self.deciders = device, ()
        try:
            yield
        finally:
            self.device, self.deciders, self.colocation = before

    @contextmanager
    def control_dependencies(self, names: Iterable[str] | None) -> Iterator[None]:
        before = self.control_inputs
        self.control_inputs = () if names is None else tuple(dict.fromkeys((*before, *names)))
        try:
            yield
        finally:
            self.control_inputs = before

    @contextmanager
    def colocate_with(self, names: Iterable[str]) -> Iterator[None]:
        """Ask for the devices of these nodes, whatever device scopes are around; of none, change nothing."""
        before = self.colocation, self.device, self.deciders
        colocation = tuple(dict.fromkeys((*self.colocation, *names)))
        if colocation != self.colocation:
            self.colocation, self.device, self.deciders = colocation, "", ()
        try:
            yield
        finally:
            self.colocation, self.device, self.deciders = before

    @contextmanager
    def placed(self, pivot: str | None) -> Iterator[None]:
        """Let nodes without inputs run where this node does: in its frame, and only if it is live."""
        before = self.pivot
        self.pivot = pivot or ""
        try:
            yield
        finally:
            self.pivot = before

    @contextmanager
    def apart(self, pivot: str | None, controls: Iterable[str] = ()) -> Iterator[None]:
        """As `placed`, apart from the control dependencies and colocations around; `controls` are its own."""
        before = self.pivot, self.control_inputs, self.colocation, self.bring
        self.pivot, self.control_inputs, self.colocation = pivot or "", tuple(dict.fromkeys(controls)), ()
        self.bring = None
        try:
            yield
        finally:
            self.pivot, self.control_inputs, self.colocation, self.bring = before

    @contextmanager
    def outside(self) -> Iterator[None]:
        """As `apart`, out of every branch and loop: for what is there in any case, such as a variable."""
        before = self.context
        self.context = None
        try:
            with self.apart(None):
                yield
        finally:
            self.context = before

    @contextmanager
    def bringing(self, bring: Callable[[Tensor], Tensor]) -> Iterator[None]:
        """Let every tensor that is given to a constructor be replaced by what `bring` makes of it."""
        before = self.bring
        self.bring = bring
        try:
            yield
        finally:
            self.bring = before

    @contextmanager
    def gradients_by(self, names: Mapping[str, str]) -> Iterator[None]:
        """Let nodes of some ops ask for gradient functions of other names."""
        before = self.gradient_names
        self.gradient_names = {**before, **names}
        try:
            yield
        finally:
            self.gradient_names = before

    @contextmanager
    def recomputed(self) -> Iterator[None]:
        """Let nodes be of a segment that is computed again for its gradient: of the outer one, if any."""
        before = self.segment
        self.segment = before or self.unique(self.prefix + "recompute").encode("utf-8", "surrogateescape")
        try:
            yield
        finally:
            self.segment = before
