"""Errors of the command line: one line to print, and an exit code for scripts."""

from __future__ import annotations

from typing import Final

from flowengine.core.errors import DeadlineExceededError, InvalidArgumentError, OpError
from flowengine.ir.traits import ExternalValue

OK: Final = 0
STEP_ERROR: Final = 1
USAGE: Final = 2
UNREADABLE_GRAPH: Final = 3
MISSING_OP: Final = 4
BAD_FEED: Final = 5
TIMEOUT: Final = 6
INTERRUPTED: Final = 130  # 128 + SIGINT, as shells report it
CLOSED_PIPE: Final = 141  # 128 + SIGPIPE


class CommandError(Exception):
    """A failure with the line to print and the exit code to return."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


def printable(text: str) -> str:
    """Text on one line with nothing in it that a terminal would obey: names in a graph are a stranger's."""
    joined = " ".join(line.strip() for line in text.splitlines() if line.strip())
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in joined)


def describe(error: BaseException) -> tuple[str, int]:
    """(the line to print, the exit code) for anything that a verb may raise."""
    if isinstance(error, CommandError):
        return printable(str(error)), error.code
    if isinstance(error, OpError):
        return printable(_op_error_text(error)), _op_error_code(error)
    if isinstance(error, MemoryError):
        return "out of memory", STEP_ERROR
    if isinstance(error, OSError):
        return printable(str(error)), STEP_ERROR
    return printable(f"{type(error).__name__}: {error} (this is a bug; --debug shows where)"), STEP_ERROR


def was_not_fed(error: OpError) -> bool:
    """Whether a placeholder failed: one that runs has not been fed."""
    if error.op_type is None or not isinstance(error, InvalidArgumentError):
        return False
    from flowengine.ops.load import registry

    definition = registry().get(error.op_type)
    return definition is not None and ExternalValue in definition.traits and not definition.inputs


def _op_error_text(error: OpError) -> str:
    if was_not_fed(error):
        return (
            f"nothing was fed to '{error.node_name}': add --feed {error.node_name}=SOURCE ({error.message})"
        )
    return f"{type(error).__name__}: {error}"


def _op_error_code(error: OpError) -> int:
    if error.missing_op is not None:
        return MISSING_OP
    if isinstance(error, DeadlineExceededError):
        return TIMEOUT
    if was_not_fed(error):
        return BAD_FEED
    return STEP_ERROR
