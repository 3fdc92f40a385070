"""Patterns in RE2's syntax, compiled for Python's matcher.

A pattern is rewritten before it is compiled. What means the same in both passes; `\\z`, `\\C`, `\\Q...\\E`,
`\\x{...}`, `[[:alpha:]]`, `\\pL`, `\\p{Nd}`, the ASCII classes `\\d`, `\\w`, `\\s`, `\\b`, and `$` (the end
of the text, not a last line break) are written in Python's terms; what RE2 refuses (look-around,
back-references, possessive repeats, conditions) is refused. `(?U)`, other Unicode classes and scripts
are not supported. A byte that is not UTF-8 matches `.` here and nothing there.

RE2 takes linear time. Python's matcher goes back, so the work is bounded another way: where unbounded
repeats nest, a text may be `NESTED_TEXT_MAX` characters long.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Final

from flowengine.core.errors import InvalidArgumentError, ResourceExhaustedError, UnimplementedError

#: Characters of a text for a pattern in which an unbounded repeat contains another.
NESTED_TEXT_MAX: Final = 24

_PATTERN_MAX: Final = 10_000

_SPACES: Final = "\\t\\n\\f\\r "
_WORD: Final = "0-9A-Za-z_"
_POSIX: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": _WORD,
}
_PERL: Final = {
    "d": "[0-9]",
    "D": "[^0-9]",
    "w": f"[{_WORD}]",
    "W": f"[^{_WORD}]",
    "s": f"[{_SPACES}]",
    "S": f"[^{_SPACES}]",
    "b": f"(?:(?<![{_WORD}])(?=[{_WORD}])|(?<=[{_WORD}])(?![{_WORD}]))",
    "B": f"(?:(?<=[{_WORD}])(?=[{_WORD}])|(?<![{_WORD}])(?![{_WORD}]))",
    "A": "\\A",
    "z": "\\Z",
    "C": "(?s:.)",
}
_CATEGORIES: Final = {"L": "[^\\W\\d_]", "Nd": "\\d"}
_COUNT: Final = re.compile(r"\{[0-9]+(?:,[0-9]*)?\}")
_REPEATED_TWICE: Final = re.compile(
    r"(?:[*+?]|\{[0-9]+(?:,[0-9]*)?\})\??(?P<operator>[*+]|\{[0-9]+(?:,[0-9]*)?\})"
)
_CODE: Final = re.compile(r"\\(?:x(?:([0-9A-Fa-f]{2})|\{([0-9A-Fa-f]{1,6})\})|(0[0-7]{0,2}|[1-7][0-7]{1,2}))")


class _Translation:
    """One pattern on its way from RE2's syntax to Python's."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self._out: list[str] = []
        #: For each open group: whether flags set `m` there.
        self._multiline = [False]

    def run(self) -> str:
        while self._at < len(self._pattern):
            self._step()
        return "".join(self._out)

    def _fail(self, why: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"Invalid pattern: {self._pattern}, error: {why}")

    def _emit(self, text: str, taken: int | None = None) -> None:
        self._out.append(text)
        self._at += len(text) if taken is None else taken

    def _step(self) -> None:
        pattern, at = self._pattern, self._at
        char = pattern[at]
        if char == "\\":
            self._escape()
        elif char == "[":
            self._class()
        elif char == "(":
            self._group()
        elif char == ")":
            if len(self._multiline) > 1:
                self._multiline.pop()
            self._emit(")")
        elif char == "$":
            self._emit("$" if self._multiline[-1] else "\\Z", 1)
        elif char in "*+?{":
            count = _COUNT.match(pattern, at)
            if char == "{" and not count:
                self._emit("\\{", 1)
                return
            twice = _REPEATED_TWICE.match(pattern, at)
            if twice:
                raise self._fail(f"bad repetition operator: {twice[0]}")
            operator = count[0] if count else char
            self._emit(operator + "?" if pattern[at + len(operator) :].startswith("?") else operator)
        else:
            self._emit(char)

    def _escape(self) -> None:
        rest = self._pattern[self._at : self._at + 1000]
        char = rest[1:2]
        if char == "Q":
            begin = self._at + 2
            end = self._pattern.find("\\E", begin)
            literal = self._pattern[begin:] if end < 0 else self._pattern[begin:end]
            self._emit(re.escape(literal), len(literal) + (2 if end < 0 else 4))
        elif char in _PERL:
            self._emit(_PERL[char], 2)
        elif char and char in "pP":
            name = re.match(r"\\p(?:(\w)|\{(\w+)\})", rest)
            category = _CATEGORIES.get(name[1] or name[2]) if name else None
            if name is None or category is None:
                raise UnimplementedError(
                    f"pattern {self._pattern!r}: of Unicode's classes, \\pL and \\p{{Nd}} are supported"
                )
            self._emit(category, name.end())
        else:
            self._emit(*self._character(rest))

    def _character(self, rest: str) -> tuple[str, int]:
        """An escape that stands for one character, and how many it took."""
        char = rest[1:2]
        if not char:
            raise self._fail("trailing \\ at end of regular expression")
        if char in "nrtfva" or (char.isascii() and not char.isalnum()):
            return rest[:2], 2
        code = _CODE.match(rest)
        number = 0 if code is None else int(code[3], 8) if code[3] else int(code[1] or code[2], 16)
        if code is None or number > 0x10FFFF:
            raise self._fail(f"invalid escape sequence: \\{char}")
        return re.escape(chr(number)), code.end()

    def _class(self) -> None:
        pattern, at = self._pattern, self._at + 1
        out = ["["]
        if pattern.startswith("^", at):
            out.append("^")
            at += 1
        start = at
        while at < len(pattern) and (at == start or pattern[at] != "]"):
            rest = pattern[at : at + 20]
            posix = re.match(r"\[:(\^?)(\w+):\]", rest)
            if posix:
                if posix[1] or posix[2] not in _POSIX:
                    raise self._fail(f"invalid character class range: {posix[0]}")
                out.append(_POSIX[posix[2]])
                at += posix.end()
            elif rest[0] == "\\" and rest[1:2] in ("d", "w", "s"):
                out.append(_PERL[rest[1]][1:-1])
                at += 2
            elif rest[0] == "\\" and rest[1:2] in ("D", "W", "S", "p", "P"):
                raise UnimplementedError(f"pattern {pattern!r}: {rest[:2]} in a class is not supported")
            elif rest[0] == "\\":
                text, taken = self._character(rest)
                out.append(text)
                at += taken
            else:
                out.append("\\" + rest[0] if rest[0] in "[]&~|" else rest[0])
                at += 1
        if at >= len(pattern):
            raise self._fail(f"missing ]: {pattern[self._at :]}")
        self._emit("".join(out) + "]", at + 1 - self._at)

    def _group(self) -> None:
        pattern, at = self._pattern, self._at
        multiline = self._multiline[-1]
        if not pattern.startswith("(?", at):
            self._multiline.append(multiline)
            self._emit("(")
            return
        named = re.compile(r"\(\?P<\w+>").match(pattern, at)
        if named:
            self._multiline.append(multiline)
            self._emit(named[0])
            return
        flags = re.compile(r"\(\?([imsU]*)(-[imsU]+)?([:)])").match(pattern, at)
        if flags is None:
            raise self._fail(f"invalid perl operator: {pattern[at : at + 3]}")
        if "U" in flags[0]:
            raise UnimplementedError(f"pattern {pattern!r}: the flag U is not supported")
        multiline = "m" in flags[1] or (multiline and "m" not in (flags[2] or ""))
        if flags[3] == ":":
            self._multiline.append(multiline)
            self._emit(flags[0])
        else:
            self._multiline[-1] = multiline
            self._rest_of_group(flags[1] + (flags[2] or ""), flags.end() - at)

    def _rest_of_group(self, flags: str, taken: int) -> None:
        """`(?i)ab|c` as `(?i:ab)|(?i:c)`, up to where the group around it ends."""
        self._at += taken
        if not flags:
            return
        self._out.append(f"(?{flags}:")
        depth = len(self._multiline)
        while self._at < len(self._pattern):
            char = self._pattern[self._at]
            if char == ")" and len(self._multiline) == depth:
                break
            if char == "|" and len(self._multiline) == depth:
                self._emit(f")|(?{flags}:", 1)
            else:
                self._step()
        self._out.append(")")


def _nests(pattern: str) -> bool:
    """Whether an unbounded repeat contains another (brackets are counted: it may say so too often)."""
    bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern, flags=re.DOTALL)
    unbounded = re.compile(r"[*+]|\{[0-9]+,\}")
    inside = [False]
    for index, char in enumerate(bare):
        if char == "(":
            inside.append(False)
        elif char == ")" and len(inside) > 1:
            repeated = inside.pop()
            if repeated and unbounded.match(bare, index + 1):
                return True
            inside[-1] |= repeated
        elif unbounded.match(bare, index):
            inside[-1] = True
    return False


@functools.lru_cache(maxsize=256)
def compiled(pattern: bytes) -> tuple[re.Pattern[str], bool]:
    """The pattern, and whether repeats nest in it; InvalidArgumentError for one that RE2 refuses."""
    if len(pattern) > _PATTERN_MAX:
        raise ResourceExhaustedError(f"a pattern of {len(pattern)} bytes: the limit is {_PATTERN_MAX}")
    text = pattern.decode("utf-8", "surrogateescape")
    try:
        translated = _Translation(text).run()
        return re.compile(translated), _nests(translated)
    except (re.error, OverflowError, RecursionError) as error:
        raise InvalidArgumentError(f"Invalid pattern: {text}, error: {error}") from error


def matcher(pattern: bytes) -> tuple[re.Pattern[str], Callable[[bytes], str]]:
    """The compiled pattern, and how a text is brought before it.

    Bringing raises ResourceExhaustedError for a text that is too long for a pattern with nested repeats.
    """
    program, nested = compiled(pattern)

    def text_of(data: bytes) -> str:
        text = data.decode("utf-8", "surrogateescape")
        if nested and len(text) > NESTED_TEXT_MAX:
            shown = pattern.decode("utf-8", "replace")
            raise ResourceExhaustedError(
                f"pattern {shown!r} repeats a repeat, which may take exponential time on a text of "
                f"{len(text)} characters (at most {NESTED_TEXT_MAX}); write it without nesting, such as "
                "'[ab]+' for '(a+|b+)+'"
            )
        return text

    return program, text_of
