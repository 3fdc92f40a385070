"""The ops that a stranger's graph may use in a box: a list made of what their definitions say that they are.

An op is on it unless it has a duty that reaches out of the graph: it touches files where there are none for
it, calls Python, or is something that this module does not know. The list is asked where kernels are found,
which is the one way to run anything: steps, functions, what datasets call, and graphs that an op is given.

The doors that stand behind it, `FileAccess`, Landlock and seccomp, are there whatever an op says of itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flowengine.core.errors import PermissionDeniedError
from flowengine.ir.graph import Node
from flowengine.ir.trait_checks.outward import CallsPython, ReadsFiles, TouchesFiles, WritesFiles
from flowengine.ir.traits import Checks, ExternalValue, Impure, Names, Trait, Writes
from flowengine.kernels.registry import Holds, Kernel, KernelRegistry

#: Duties towards the graph and its own state: they lead nowhere else. Permissions never do.
_WITHIN: Final[tuple[type[Trait], ...]] = (Checks, ExternalValue, Impure, Names, Writes)

#: {duty: what is said of an op that has it}
_WHY: Final[dict[type[Trait], str]] = {
    ReadsFiles: "it reads files, and there are none: name them by `read` or `write` of Config.sandbox",
    WritesFiles: "it writes files, and there is no place: name folders by `write` of Config.sandbox",
    CallsPython: "it calls functions of a Python program, and there is none",
}


class AllowedOps:
    """The ops that may run in one box.

    reads    whether there are files to be read
    writes   whether there are places to be written
    """

    def __init__(self, *, reads: bool, writes: bool) -> None:
        granted = set[type[Trait]]()
        if reads or writes:
            granted.add(ReadsFiles)
        if writes:
            granted.add(WritesFiles)
        self._allowed = frozenset({*_WITHIN, *granted})

    def why_not(self, node: Node) -> str | None:
        """Why a node may not run; None where it may."""
        for trait in _traits(node):
            kind = type(trait)
            if not trait.IS_DUTY or kind in self._allowed:
                continue
            if isinstance(trait, TouchesFiles) and not trait.holds(node.attrs):
                continue
            return _WHY.get(kind, f"it is {trait}, which no sandbox knows")
        return None


def _traits(node: Node) -> Iterator[Trait]:
    """All that a node is, where its attributes decide of it, too."""
    definition = node.op_def
    if definition is not None:
        yield from definition.traits.values()
        for when in definition.conditional:
            if when.holds(node.attrs):
                yield when.trait


class AllowedKernels(KernelRegistry):
    """Another registry's kernels, for nodes that may run."""

    def __init__(self, kernels: KernelRegistry, allowed: AllowedOps) -> None:
        super().__init__(parent=kernels)
        self._allowed = allowed

    def serving(self, node: Node, device: str = "CPU", holds: Holds | None = None) -> Kernel | None:
        """As elsewhere. PermissionDeniedError, naming node and op, for one that is not on the list."""
        why = self._allowed.why_not(node)
        if why is not None:
            error = PermissionDeniedError(f"not allowed in this sandbox: {why}")
            raise error.locate(node_name=node.name, op_type=node.op)
        return super().serving(node, device, holds)


__all__ = ["AllowedKernels", "AllowedOps"]
