"""Small pieces of HTML, for what a notebook shows of an object. All text is escaped: a graph's names are a
stranger's.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def text(content: str) -> str:
    """Text as it is."""
    return escape(content)


def code(content: str) -> str:
    """Text as it would stand in a program."""
    return f"<code>{escape(content)}</code>"


def listing(content: str) -> str:
    """Lines of text, each where it stands."""
    return f'<pre style="line-height: 1.3">{escape(content)}</pre>'


def table(rows: Iterable[tuple[str, object]]) -> str:
    """A row for each pair: what it is called, and what it is."""
    cells = (
        f'<tr><th style="text-align: left">{escape(name)}</th>'
        f'<td style="text-align: left">{escape(str(value))}</td></tr>'
        for name, value in rows
    )
    return f"<table>{''.join(cells)}</table>"


__all__ = ["code", "listing", "table", "text"]
