"""Traits of ops that reach out of their graph: for files, and for functions of the program around it.

    define("ReadFile(filename: string) -> contents: string", ReadsFiles(), ...)
    define("PrintV2(input: string)", "output_stream: string = 'stderr'", WritesFiles("output_stream", ...))

All are duties that no signature shows, so tests hold them against what kernels do. Who lets only some ops
run, as a sandbox does, asks for these; an op whose duties it does not know is none that it lets run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flowengine.ir.attrs import AttrValue
from flowengine.ir.traits import Trait

#: What an entry of `TouchesFiles.unless` ends with that is only how a value begins.
_BEGINS: Final = "*"


class TouchesFiles(Trait):
    """It opens files, or asks of them, by names that the graph gives.

    attr          the attribute that names one; empty where inputs do, or those who use what the op makes
    unless        values of the attribute that name no file, as an empty one never does; one with a `*` at its
                  end is how such a value begins
    is_optional   whether an input may be empty, so that only the step knows whether there is a file
    """

    IS_DUTY = True
    ATTRS = ("attr",)

    attr: str = ""
    unless: tuple[str, ...] = ()
    is_optional: bool = False

    def holds(self, attrs: Mapping[str, AttrValue]) -> bool:
        """Whether a node with these attributes needs files whatever its inputs are."""
        if not self.attr:
            return not self.is_optional
        value = attrs.get(self.attr, b"")
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        return bool(text) and not any(_matches(text, each) for each in self.unless)


def _matches(text: str, pattern: str) -> bool:
    beginning = pattern.removesuffix(_BEGINS)
    return text == beginning if beginning == pattern else text.startswith(beginning)


class ReadsFiles(TouchesFiles):
    """It reads files, or asks whether there are such, by names that the graph gives."""


class WritesFiles(TouchesFiles):
    """It makes, changes or removes files, by names that the graph gives."""


class CallsPython(Trait):
    """It calls a function of the program that runs the graph."""

    IS_DUTY = True


__all__ = ["CallsPython", "ReadsFiles", "TouchesFiles", "WritesFiles"]
