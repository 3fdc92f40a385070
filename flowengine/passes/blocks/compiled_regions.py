"""Compiled regions: the function of a region, the origin of what it raises, and a copy that tells times.

A *clocked* copy is compiled from the same lines, with a mark after each line of a node: `mark` takes the
number of the line among those of nodes, the time, and the iterations of the loops around it. Steps without a
trace run the other one, which has no mark.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from time import perf_counter
from types import CodeType, TracebackType
from typing import Any, Final

from flowengine.ir.graph import Node

_FILE: Final = "<flowengine region>"
#: The number of a mark after a pause.
PAUSE: Final = -1
_HEADER: Final = "    def region(args, ctx):"


@dataclass(frozen=True, slots=True)
class Line:
    """A line of source: the node that it computes, and the expressions of its inputs."""

    text: str
    node: Node | None = None
    inputs: tuple[str, ...] = ()
    loops: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Blame:
    """The origin of an exception: the node, the values of its inputs, ((frame, iteration), ...)."""

    node: Node
    inputs: tuple[Any, ...]
    tag: tuple[tuple[str, int], ...]


class CompiledRegion:
    """The function of a region: `call(args, ctx)` with a list that it empties.

    is_generator    whether `call` returns a generator, whose return value is the result
    takes_context   whether a member uses `ctx`; if none does, it may be None
    """

    __slots__ = ("_clocked", "call", "constants", "is_generator", "lines", "takes_context")

    def __init__(
        self, lines: Sequence[Line], constants: Sequence[Any], *, is_generator: bool, takes_context: bool
    ) -> None:
        self.lines = lines
        self.constants = tuple(constants)
        self.is_generator = is_generator
        self.takes_context = takes_context
        self._clocked: ClockedRegion | None = None
        namespace: dict[str, Any] = {"clock": perf_counter, "thread": _thread_name}
        exec(_code("\n".join(line.text for line in lines)), namespace)
        self.call: Callable[..., Any] = namespace.pop("make")(self.constants)

    @property
    def source(self) -> str:
        """Return the source, with the name of each node beside its line."""
        return "\n".join(
            line.text if line.node is None else f"{line.text:<48}# {line.node.op} {line.node.name!r}"
            for line in self.lines
        )

    @property
    def is_clocked(self) -> bool:
        """Return whether there is a copy with a clock."""
        return self._clocked is not None

    def clocked(self) -> ClockedRegion:
        """Return the copy with a clock between members, compiled on first use."""
        if self._clocked is None:
            self._clocked = ClockedRegion(self)
        return self._clocked

    def blame(self, trace: TracebackType | None) -> Blame | None:
        """Return the node at whose line an exception passed through the region."""
        while trace is not None:
            if trace.tb_frame.f_code.co_filename == _FILE:
                line = self.lines[trace.tb_lineno - 1]
                if line.node is None:
                    return None
                values = trace.tb_frame.f_locals
                constants = {f"k{i}": value for i, value in enumerate(self.constants)}
                inputs = tuple(values.get(name, constants.get(name)) for name in line.inputs)
                tag = tuple((frame, int(values.get(counter, 0))) for frame, counter in line.loops)
                return Blame(line.node, inputs, tag)
            trace = trace.tb_next
        return None


def _thread_name() -> str:
    return threading.current_thread().name


@lru_cache(maxsize=512)
def _code(text: str) -> CodeType:
    return compile(text, _FILE, "exec")


class ClockedRegion(CompiledRegion):
    """A copy of a region with a clock: `call(args, ctx, mark)`.

    marked   for each number that `mark` gets: the node that was done then, and the frames of its loops
    """

    __slots__ = ("marked",)

    def __init__(self, region: CompiledRegion) -> None:
        self.marked: list[tuple[Node, tuple[str, ...]]] = []
        super().__init__(
            [made for line in region.lines for made in self._with_mark(line)],
            region.constants,
            is_generator=region.is_generator,
            takes_context=region.takes_context,
        )

    def _with_mark(self, line: Line) -> list[Line]:
        text = line.text
        if text == _HEADER:
            return [Line("    def region(args, ctx, mark):")]
        if "= yield " in text:
            # After a pause, which another thread may end: the time since the last mark is nobody's.
            return [Line(f"{text}; mark(({PAUSE}, clock(), thread()))", line.node, line.inputs, line.loops)]
        indent = text[: len(text) - len(text.lstrip())]
        if line.node is None or text.endswith(":"):
            return [line]
        counters = "".join(f", {counter}" for _, counter in line.loops)
        self.marked.append((line.node, tuple(frame for frame, _ in line.loops)))
        return [line, Line(f"{indent}mark(({len(self.marked) - 1}, clock(){counters}))")]


__all__ = ["PAUSE", "Blame", "ClockedRegion", "CompiledRegion", "Line"]
