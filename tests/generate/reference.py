"""Print docs/reference/more.md: the public names that no other page of the reference has.

    python -m tests.generate.reference

The other pages are written by hand, in an order to be read in; a name that is new comes here by itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Final

import flowengine as fe
from flowengine import testing

PAGES: Final = Path(__file__).resolve().parents[2] / "docs" / "reference"
PAGE: Final = "more.md"
#: Tables of values of one kind, which their own page or docstring tells of.
_TABLES: Final = frozenset({"dtypes", "errors"})


def public() -> Iterator[str]:
    """The full names of what `flowengine` offers: its own names, and those of its public modules.

    A package that may be called is shown by hand, as the function that it stands for.
    """
    for name in sorted(set(fe.__all__) - _TABLES):
        value = getattr(fe, name)
        if isinstance(value, ModuleType):
            if not callable(value):
                yield from (f"flowengine.{name}.{each}" for each in sorted(value.__all__))
        elif not name.startswith("_"):
            yield f"flowengine.{name}"
    yield from (f"flowengine.testing.{each}" for each in sorted(testing.__all__))


def shown() -> set[str]:
    """Return the names that the hand-written pages show."""
    pages = (page.read_text() for page in sorted(PAGES.glob("*.md")) if page.name != PAGE)
    return {name for page in pages for name in re.findall(r"^::: (\S+)$", page, re.MULTILINE)}


def main() -> None:
    print("# More names")
    known = shown()
    missing = [name for name in public() if name not in known]
    if not missing:
        print("\nThe other pages of the reference have them all.")
    for name in missing:
        print(f"\n::: {name}")


if __name__ == "__main__":
    main()
