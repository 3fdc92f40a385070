"""The commands of `flowengine debug`, one a line."""

from __future__ import annotations

import os
import shlex
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final

from flowengine.cli.failure import CommandError, printable
from flowengine.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from flowengine.tools.debugging.stepper import Stepper
    from flowengine.tools.debugging.visited import VisitedNode

HELP: Final = """\
step [N]      run the next node, or N nodes; so does an empty line
go [NAME]     run until a node with this name, or of a pattern such as layer/*, is next; without a name until
              a break, or the end
break [NAME]  stop before this node from now on, too; without a name list the breaks
delete NAME   forget a break
nan           run until the next node has an input with NaN or an infinity
where         show the next node again
inputs        print the inputs of the next node
outputs       print the outputs of the node that ran last
save FILE     keep both in a .npz file
quit          leave; the step ends here"""


class Dialogue:
    """A person's commands to a stepper, and the answers.

    stepper   the step
    say       prints a line
    breaks    the patterns of names that the step stops before
    """

    def __init__(self, stepper: Stepper, say: Callable[[str], None], breaks: list[str]) -> None:
        self._stepper = stepper
        self._say = say
        self.breaks = breaks
        self._commands: dict[str, Callable[[list[str]], Awaitable[None]]] = {
            "step": self._step,
            "go": self._go,
            "break": self._break,
            "delete": self._delete,
            "nan": self._nan,
            "where": self._where,
            "inputs": self._inputs,
            "outputs": self._outputs,
            "save": self._save,
            "help": self._help,
        }

    async def obey(self, line: str) -> bool:
        """Obey a line; return whether there are more to come. Raises the step's error."""
        try:
            words = shlex.split(line) or ["step"]
        except ValueError as error:
            self._say(f"{error}: {line}")
            return True
        name, *rest = words
        if name in ("quit", "exit", "q"):
            return False
        found = [each for each in self._commands if each.startswith(name)]
        if len(found) != 1 and name not in found:
            what = f"may be {' or '.join(found)}" if found else "is no command: help lists them"
            self._say(printable(f"{name} {what}"))
            return True
        name = name if name in found else found[0]
        try:
            await self._commands[name](rest)
        except _NotUnderstoodError as error:
            self._say(printable(str(error)))
        return not self._stepper.has_ended

    def show(self) -> None:
        """Show the next node."""
        node = self._stepper.node
        for line in _lines(node) if node is not None else ["the step has ended"]:
            self._say(printable_with_indent(line))

    # -- commands -----------------------------------------------------------------------------------

    async def _step(self, words: list[str]) -> None:
        count = words[0] if words else "1"
        if not count.isdecimal() or int(count) < 1:
            raise _NotUnderstoodError(f"step {count}: give a number of nodes")
        await self._stepper.step(int(count))
        self._ran()

    async def _go(self, words: list[str]) -> None:
        names = words or self.breaks
        for name in names:
            self._check(name)
        await self._stepper.go_on(names)
        self._ran()

    async def _nan(self, words: list[str]) -> None:
        await self._stepper.go_on(when=lambda node: not node.has_finite_inputs)
        self._ran()

    async def _break(self, words: list[str]) -> None:
        for name in words:
            self._check(name)
            if name not in self.breaks:
                self.breaks.append(name)
        if not words:
            self._say(printable(", ".join(self.breaks)) or "no breaks")

    async def _delete(self, words: list[str]) -> None:
        if not words:
            raise _NotUnderstoodError("delete NAME: name the break to forget")
        for name in words:
            if name not in self.breaks:
                raise _NotUnderstoodError(f"there is no break at {name}")
            self.breaks.remove(name)

    async def _where(self, words: list[str]) -> None:
        self.show()

    async def _inputs(self, words: list[str]) -> None:
        node = self._stepper.node
        self._print("input", () if node is None else node.inputs)

    async def _outputs(self, words: list[str]) -> None:
        ran = self._stepper.ran
        if ran is None:
            raise _NotUnderstoodError("no node has run yet")
        self._say(printable(ran.name))
        self._print("output", ran.outputs)

    async def _save(self, words: list[str]) -> None:
        if len(words) != 1:
            raise _NotUnderstoodError("save FILE: name one .npz file")
        node, ran = self._stepper.node, self._stepper.ran
        arrays = {f"input_{slot}": value for slot, value in enumerate(() if node is None else node.inputs)}
        arrays |= {f"output_{slot}": value for slot, value in enumerate(() if ran is None else ran.outputs)}
        kept = {name: value for name, value in arrays.items() if value is not None}
        _write(words[0], kept)
        self._say(printable(f"{len(kept)} values in {words[0]}"))

    async def _help(self, words: list[str]) -> None:
        for line in HELP.splitlines():
            self._say(line)

    def _ran(self) -> None:
        ran = self._stepper.ran
        if ran is not None:
            self._say(f"ran {printable(ran.name)}: " + "; ".join(_digests(ran.outputs)))
        self.show()

    def _check(self, name: str) -> None:
        try:
            self._stepper.check(name)
        except InvalidArgumentError as error:
            raise _NotUnderstoodError(error.message) from None

    def _print(self, what: str, values: tuple[Any, ...]) -> None:
        from flowengine.cli.results import readable

        for slot, value in enumerate(values):
            text = readable(f"{what} {slot}", value) if value is not None else f"{what} {slot}: no numbers"
            for line in text.splitlines():
                self._say(printable_with_indent(line))


def _write(path: str, arrays: dict[str, Any]) -> None:
    from flowengine.cli.results import storable, write_archive

    try:
        kept = {name: storable(each, path) for name, each in arrays.items()}
    except CommandError as error:
        raise _NotUnderstoodError(str(error)) from None
    try:
        with open(path, "xb") as file:
            try:
                write_archive(file, kept)
            except BaseException:
                # A part of the values would stand in the way of the next attempt.
                os.unlink(path)
                raise
    except FileExistsError:
        raise _NotUnderstoodError(f"{path} exists already: name another file") from None
    except OSError as error:
        raise _NotUnderstoodError(f"{path}: {error.strerror}") from None


class _NotUnderstoodError(Exception):
    """A command that cannot be obeyed; its text says why."""


def printable_with_indent(line: str) -> str:
    """Return a line of which a terminal obeys nothing, with its indent."""
    return line[: len(line) - len(line.lstrip())] + printable(line.lstrip())


def _lines(node: VisitedNode) -> Iterator[str]:
    first, *rest = str(node).splitlines()
    yield f"next {first}"
    yield from rest


def _digests(values: tuple[Any, ...]) -> list[str]:
    from flowengine.runtime.guarding.value_checks import digest

    return [*map(digest, values)] or ["no outputs"]


__all__ = ["HELP", "Dialogue"]
