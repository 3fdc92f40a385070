"""The line of the program that is building: what errors and nodes say of where they come from."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Final

#: Frames of files below here are ours, not the user's.
_PACKAGE: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_is_ours: Final[dict[str, bool]] = {}


def creation_site() -> str:
    """`file:line in function` of the innermost frame outside of this package."""
    frame = sys._getframe(1)
    while True:
        code = frame.f_code
        filename = code.co_filename
        ours = _is_ours.get(filename)
        if ours is None:
            ours = filename.startswith((_PACKAGE, "<frozen ")) or filename == contextlib.__file__
            _is_ours[filename] = ours
        if not ours:
            return f"{filename}:{frame.f_lineno} in {code.co_name}"
        caller = frame.f_back
        if caller is None:
            return ""
        frame = caller
