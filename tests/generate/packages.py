"""The list of packages in `pyproject.toml`: every folder with an `__init__.py`.

Every package is named there, because discovery cannot see through `package-dir`.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
_LIST: Final = re.compile(r"^packages = \[\n.*?^\]\n", re.MULTILINE | re.DOTALL)


def packages(root: Path = ROOT) -> list[str]:
    """The names of the packages on disk, in order."""
    found = [*_under(root / "transport", "flowengine.transport")]
    found += _under(root / "kernels", "flowengine.kernels")
    # The two links inside flowengine/ lead to the folders above.
    found += [
        name
        for name in _under(root / "flowengine", "flowengine")
        if not name.startswith(("flowengine.transport", "flowengine.kernels"))
    ]
    return sorted(found)


def _under(folder: Path, name: str) -> list[str]:
    return [
        ".".join([name, *init.parent.relative_to(folder).parts])
        for init in folder.rglob("__init__.py")
        if not any(part.is_symlink() for part in init.relative_to(folder).parents)
    ]


def source() -> str:
    """The text of `pyproject.toml` with the list as it must be."""
    lines = "".join(f'    "{name}",\n' for name in packages())
    text, count = _LIST.subn(f"packages = [\n{lines}]\n", (ROOT / "pyproject.toml").read_text())
    assert count == 1
    return text


if __name__ == "__main__":
    sys.stdout.write(source())
