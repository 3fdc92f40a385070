"""Write the files that are made from the tree, or say which of them are out of date.

    python -m tests.generate            # what `make generate` runs
    python -m tests.generate --check    # status 1, naming the files that are out of date

Each is checked in, so that nothing is looked for when the package is imported. Each text is made in a
process of its own, in the order of `GENERATED`: a later one may read an earlier one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]

#: {file: the arguments of Python that print its text}
GENERATED: Final[dict[str, Sequence[str]]] = {
    "flowengine/ops/index.py": ("-m", "tests.generate.op_index"),
    "flowengine/gradients/index.py": ("-m", "tests.generate.gradient_index"),
    "flowengine/graphs/op_types.pyi": ("-m", "tests.generate.op_types"),
    "kernels/index.py": ("-m", "tests.generate.kernel_index"),
    "pyproject.toml": ("-m", "tests.generate.packages"),
    "docs/ops.md": ("-m", "flowengine", "ops", "--markdown"),
}
#: {folder: the arguments of Python that print JSON, {name of a file in the folder: its text}}
FOLDERS: Final[dict[str, Sequence[str]]] = {
    "docs/reference": ("-m", "tests.generate.reference"),
    "docs/images": ("-m", "tests.tools.diagrams"),
}


def texts() -> Iterator[tuple[Path, str]]:
    """The files with the texts that they should have."""
    for name, arguments in GENERATED.items():
        yield ROOT / name, printed(name, arguments)
    for folder, arguments in FOLDERS.items():
        for name, text in json.loads(printed(folder, arguments)).items():
            yield ROOT / folder / name, text


def printed(name: str, arguments: Sequence[str]) -> str:
    """Return the output of Python with these arguments, which make `name`."""
    made = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, check=False, stdout=subprocess.PIPE, text=True
    )
    if made.returncode:
        raise SystemExit(f"{name} cannot be made: python {' '.join(arguments)} has failed")
    return made.stdout


def main(arguments: Sequence[str]) -> int:
    check = "--check" in arguments
    stale = 0
    for path, text in texts():
        if path.exists() and path.read_text() == text:
            continue
        stale += 1
        print(f"{path.relative_to(ROOT)} {'is out of date: run make generate' if check else 'written'}")
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
