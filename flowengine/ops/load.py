"""The registry of every op of this package, whose modules are imported as their ops are asked for.

`index.py`, which `make generate` writes from the tree, says which module defines which op: nothing is looked
for when the package is imported. An op that is not in it is not defined here.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Final

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.opdef import OpDef, OpRegistry
from flowengine.ops.index import OPS
from flowengine.ops.registry import WRITTEN


class _StandardOps(OpRegistry):
    """Imports an op's module, and reads its definition, when it is first asked for."""

    def __init__(self) -> None:
        super().__init__()
        self._modules = {op: module for module, ops in OPS.items() for op in ops.split()}
        self._imported: set[str] = set()

    def get(self, name: str) -> OpDef | None:
        found = self._defs.get(name)
        if found is None and name in self._modules:
            module = self._modules[name]
            if module not in self._imported:
                # Another thread may be about to import it: this returns when the module is whole.
                importlib.import_module(f"flowengine.ops.{module}")
                self._imported.add(module)
            # Two threads that read one text make equal definitions; the first is kept.
            found = self._defs.setdefault(name, WRITTEN[name].read(name))
        return found

    def _offered(self, name: str) -> OpDef | None:
        from flowengine.core import plugins

        return self.get(name) if plugins.load(plugins.OPS, name) else None

    def register(self, definition: OpDef) -> OpDef:
        """Add an op to all graphs of the process; better is a registry of one's own, with this as parent."""
        if definition.name in self._modules:
            raise InvalidArgumentError(f"op '{definition.name}' is already defined in this registry")
        return super().register(definition)

    def __iter__(self) -> Iterator[str]:
        return iter(sorted({*self._modules, *self._defs}))


_standard: Final = _StandardOps()


def load_all() -> None:
    """Import every module and read every definition. Cheap when done before."""
    for name in _standard:
        _standard.get(name)


def registry() -> OpRegistry:
    """The registry with every op of this package."""
    return _standard
