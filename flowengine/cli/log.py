"""Log records on standard error."""

from __future__ import annotations

import logging
import sys
from typing import TextIO


class StderrHandler(logging.StreamHandler[TextIO]):
    """A handler that writes to what `sys.stderr` is when a record comes.

    The one of `logging` keeps the stream that it found when it was made. A host that calls `main` more than
    once, each time with a standard error of its own, would see records go to a file that is closed.
    """

    def emit(self, record: logging.LogRecord) -> None:
        self.stream = sys.stderr
        super().emit(record)


__all__ = ["StderrHandler"]
