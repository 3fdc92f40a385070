"""The text of `kernels/index.py`: which module of the tree registers the kernels of which ops.

    python -m tests.generate.kernel_index      # prints it

Runs in a process of its own, in which no kernel module has been imported: who registers a kernel is told
by the call itself, so neither the order of imports nor what one module imports of another plays a part.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from types import FrameType
from typing import Final
from unittest import mock

from flowengine.kernels.registry import Kernel, KernelRegistry

ROOT: Final = Path(__file__).resolve().parents[2]
KERNELS: Final = ROOT / "kernels"
PACKAGE: Final = "flowengine.kernels."

HEAD: Final = '''\
"""Which kernel module serves which ops. Written by `make generate`, from the tree."""

from __future__ import annotations

from typing import Final
'''


class TwoModulesError(Exception):
    """An op has kernels for one type of device in two modules, of which neither is a provider's."""


def kernel_modules(kernels: Path = KERNELS) -> list[str]:
    """The names of the modules in the folders of `kernels/`, by name: `math.unary`."""
    return sorted(
        ".".join(path.relative_to(kernels).with_suffix("").parts)
        for path in kernels.glob("*/**/*.py")
        if path.name != "__init__.py"
    )


def registering_module(frame: FrameType | None) -> str:
    """The module whose import has led to this call."""
    while frame is not None and frame.f_code.co_name != "<module>":
        frame = frame.f_back
    assert frame is not None, "a kernel was registered outside of an import"
    name: str = frame.f_globals["__name__"]
    return name.removeprefix(PACKAGE)


def registrations(modules: list[str]) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """{module: ops that it registers kernels for}: this package's own, and those of providers.

    Raises TwoModulesError where two modules have kernels of one op for one type of device.
    """
    own: dict[str, set[str]] = {}
    homes: dict[tuple[str, str | None], str] = {}
    provided: dict[str, set[str]] = {}
    register = KernelRegistry.register

    def noted(self: KernelRegistry, kernel: Kernel, *, first: bool = False) -> Kernel:
        module = registering_module(sys._getframe(1))
        if kernel.maker is None:
            check_one_module(homes, kernel.op, kernel.device, module)
        found = own if kernel.maker is None else provided
        found.setdefault(module, set()).add(kernel.op)
        return register(self, kernel, first=first)

    with mock.patch.object(KernelRegistry, "register", noted):
        for name in modules:
            importlib.import_module(PACKAGE + name)
    return own, provided


def check_one_module(
    homes: dict[tuple[str, str | None], str], op: str, device: str | None, module: str
) -> None:
    """Raise TwoModulesError if another module has a kernel of the op for the same type of device.

    Which of them is tried first would depend on which was imported first.
    """
    other = homes.setdefault((op, device), module)
    if other != module:
        raise TwoModulesError(
            f"'{op}' has kernels for {device or 'any device'} in kernels.{other} and in kernels.{module}"
        )


def table(name: str, found: Mapping[str, set[str]]) -> list[str]:
    """The lines of a dictionary {module: names of its ops}."""
    lines = [f"{name}: Final[dict[str, str]] = {{"]
    for module in sorted(found):
        lines.append(f'    "{module}": """')
        line = "       "
        for op in sorted(found[module]):
            if len(line) + len(op) + 1 > 108:
                lines.append(line)
                line = "       "
            line += " " + op
        lines += [line, '    """,']
    return [*lines, "}"]


def source() -> str:
    own, provided = registrations(kernel_modules())
    lines = [HEAD, "#: {module: names of its ops}", *table("OPS", own), ""]
    lines += ["#: {module of a provider: names of the ops that it has kernels of}"]
    return "\n".join([*lines, *table("PROVIDED", provided), ""])


if __name__ == "__main__":
    sys.stdout.write(source())
