"""Text of others, such as names in a graph, as it can be shown: nothing in it moves a cursor."""

from __future__ import annotations

from typing import Final

_CHARACTERS_MAX: Final = 4096


def printable(text: object, characters_max: int = _CHARACTERS_MAX, *, keep: str = "") -> str:
    """Text of bounded length in which control characters, and what is no Unicode, are spelt out.

    keep   control characters that stay, such as the ends of lines
    """
    shown = str(text)[:characters_max]
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii")
        for each in shown
    )


__all__ = ["printable"]
