"""`Terminal`: what a person sees of what a program has written, lines drawn over one another included."""

from __future__ import annotations

import io
import re
from typing import Final

#: As most terminals begin.
COLUMNS: Final = 80
#: Colours; the cursor upwards; erasing; hiding the cursor and showing it.
_CONTROL: Final = re.compile(r"\x1b\[(?:\?25([hl])|([\d;]*)([mAJK]))")


class Terminal(io.StringIO):
    """A terminal of 80 columns that is high enough for everything, and moves its cursor as terminals do.

    rows         what each row shows, from the top
    has_cursor   whether the cursor is visible
    """

    encoding = "utf-8"

    def __init__(self) -> None:
        super().__init__()
        self.rows = [""]
        self.row = self.column = 0
        self.has_cursor = True

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        place = 0
        while place < len(text):
            found = _CONTROL.match(text, place)
            if found is not None:
                self._control(found[3] or found[1], found[2] or "")
                place = found.end()
                continue
            self._put(text[place])
            place += 1
        return len(text)

    def _put(self, character: str) -> None:
        if character == "\r":
            self.column = 0
        elif character == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.rows):
                self.rows.append("")
        else:
            if self.column == COLUMNS:
                self._put("\r")
                self._put("\n")
            line = self.rows[self.row].ljust(self.column)
            self.rows[self.row] = line[: self.column] + character + line[self.column + 1 :]
            self.column += 1

    def _control(self, what: str, numbers: str) -> None:
        if what in "hl":
            self.has_cursor = what == "h"
        if what in "hlm":
            return
        if what == "A":
            self.row = max(self.row - int(numbers or 1), 0)
            while len(self.rows) > self.row + 1 and not self.rows[-1]:
                del self.rows[-1]  # nobody sees empty rows below the cursor
            return
        self.rows[self.row] = "" if (what, numbers) == ("K", "2") else self.rows[self.row][: self.column]
        if what == "J":
            del self.rows[self.row + 1 :]


__all__ = ["COLUMNS", "Terminal"]
