"""Our own ways to break a program, beside cosmic-ray's: the mistakes that this engine's authors fear.

A wake-up that does not come, memory that is shared instead of copied, a key that forgets a part, an error
that is swallowed, a dead token that counts as live, a tie that falls to the other side.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import parso
from cosmic_ray.operators.operator import Example, Operator

#: Calls that wake or release somebody.
_WAKES: Final = frozenset(
    {"set", "notify", "notify_all", "wake", "wake_up", "release", "reschedule", "deliver", "close_nowait"}
)
#: Calls whose result is the argument with memory or an identity of its own.
_COPIES: Final = frozenset({"own", "copied", "copy", "deepcopy", "tuple", "list", "dict", "set", "frozenset"})


def _parsed(code: str, like: Any) -> Any:
    """An expression or statement in place of a node, with what stood before it."""
    first = like.get_first_leaf()
    node = parso.parse(code).children[0]
    node.get_first_leaf().prefix = first.prefix
    return node


def _last_name(node: Any) -> str:
    """Return the name called in `a.b.name(...)`, `await name(...)`; empty if the node is no call."""
    children = getattr(node, "children", [])
    if children and children[0].type == "keyword" and children[0].value == "await":
        children = children[1:]
    if len(children) < 2 or getattr(children[-1], "type", "") != "trailer":
        return ""
    if children[-1].children[0].value != "(":
        return ""
    before = children[-2]
    name = before.children[-1] if before.type == "trailer" else before
    return getattr(name, "value", "")


class _Ours(Operator):
    """One change at each node that `fits`."""

    before: ClassVar[str]
    after: ClassVar[str]

    def fits(self, node: Any) -> bool:
        raise AssertionError("each operator says where it fits")

    def changed(self, node: Any) -> Any:
        raise AssertionError("each operator says what it makes")

    def mutation_positions(self, node: Any) -> Iterator[Any]:
        if self.fits(node):
            yield node.start_pos, node.end_pos

    def mutate(self, node: Any, index: int) -> Any:
        return self.changed(node)

    @classmethod
    def examples(cls) -> tuple[Any, ...]:
        return (Example(cls.before, cls.after),)


class DropWakeUp(_Ours):
    """A call that wakes or releases somebody is left out."""

    before, after = "def f():\n    event.set()\n", "def f():\n    pass\n"

    def fits(self, node: Any) -> bool:
        return (
            node.type in ("atom_expr", "power")
            and node.parent is not None
            and node.parent.type == "simple_stmt"
            and _last_name(node) in _WAKES
        )

    def changed(self, node: Any) -> Any:
        return _parsed("pass", node)


class DropCopy(_Ours):
    """`own(x)`, `copied(x)`, `list(x)` become x; `x.copy()` becomes x."""

    before, after = "y = own(x)\n", "y = (x)\n"

    def fits(self, node: Any) -> bool:
        if node.type not in ("atom_expr", "power") or _last_name(node) not in _COPIES:
            return False
        arguments = node.children[-1].children[1:-1]
        if node.children[-2].type == "trailer":
            return not arguments and _last_name(node) == "copy"
        return len(node.children) == 2 and len(arguments) == 1 and arguments[0].type != "arglist"

    def changed(self, node: Any) -> Any:
        if node.children[-2].type == "trailer":
            code = "".join(each.get_code() for each in node.children[:-2]).strip()
        else:
            code = f"({node.children[-1].children[1].get_code().strip()})"
        return _parsed(code, node)


class ForgetPartOfCondition(_Ours):
    """`a and b` becomes a; `a or b` becomes a: a check or a part of a key is forgotten."""

    before, after = "if a and b:\n    pass\n", "if a:\n    pass\n"

    def fits(self, node: Any) -> bool:
        return node.type in ("and_test", "or_test")

    def changed(self, node: Any) -> Any:
        return _parsed("".join(each.get_code() for each in node.children[:-2]).strip(), node)


class SwallowError(_Ours):
    """An error is not raised."""

    before, after = "def f():\n    raise E\n", "def f():\n    pass\n"

    def fits(self, node: Any) -> bool:
        is_bare = node.type == "keyword" and node.value == "raise" and node.parent.type == "simple_stmt"
        return node.type == "raise_stmt" or bool(is_bare)

    def changed(self, node: Any) -> Any:
        return _parsed("pass", node)


class LoseDeadToken(_Ours):
    """A name that says dead is False where it is read."""

    before, after = "g(is_dead)\n", "g(False)\n"

    def fits(self, node: Any) -> bool:
        if node.type != "name" or "dead" not in node.value.split("_"):
            return False
        parent = node.parent
        if parent.type == "trailer":
            return bool(parent.children[0] != ".")
        if parent.type in ("param", "import_from", "funcdef", "classdef", "argument", "del_stmt"):
            return parent.type == "argument" and parent.children[-1] is node
        return not node.is_definition()

    def changed(self, node: Any) -> Any:
        return _parsed("False", node)


class TurnTie(_Ours):
    """`<` takes equal ones, `<=` does not: whoever came second wins."""

    before, after = "a < b\n", "a <= b\n"
    _other: ClassVar[dict[str, str]] = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}

    def fits(self, node: Any) -> bool:
        return node.type == "operator" and node.value in self._other and node.parent.type == "comparison"

    def changed(self, node: Any) -> Any:
        node.value = self._other[node.value]
        return node


class TurnExtreme(_Ours):
    """The largest for the smallest, and the reverse."""

    before, after = "min(a, b)\n", "max(a, b)\n"
    _other: ClassVar[dict[str, str]] = {
        "min": "max",
        "max": "min",
        "minimum": "maximum",
        "maximum": "minimum",
        "popleft": "pop",
        "appendleft": "append",
    }

    def fits(self, node: Any) -> bool:
        following = node.get_next_leaf()
        return (
            node.type == "name" and node.value in self._other and following is not None and following == "("
        )

    def changed(self, node: Any) -> Any:
        node.value = self._other[node.value]
        return node


class DropReversal(_Ours):
    """`reversed(x)` becomes x."""

    before, after = "for a in reversed(x):\n    pass\n", "for a in (x):\n    pass\n"

    def fits(self, node: Any) -> bool:
        return (
            node.type in ("atom_expr", "power") and len(node.children) == 2 and _last_name(node) == "reversed"
        )

    def changed(self, node: Any) -> Any:
        return _parsed(f"({node.children[-1].children[1].get_code().strip()})", node)


OURS: Final[tuple[type[_Ours], ...]] = (
    DropWakeUp,
    DropCopy,
    ForgetPartOfCondition,
    SwallowError,
    LoseDeadToken,
    TurnTie,
    TurnExtreme,
    DropReversal,
)
