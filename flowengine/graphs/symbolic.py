"""Operations that a Tensor or variable refuses while a graph is built, because it has no value yet.

Each error names the call to use instead.

>>> x = fe.Graph().placeholder("float32", [], name="x")
>>> float(x)
Traceback (most recent call last):
flowengine.graphs.errors.ConstructionTypeError: 'x:0' stands for a value that exists only while ...
>>> x.numpy()
Traceback (most recent call last):
flowengine...MissingAttributeError: 'Tensor' object has no attribute 'numpy': use session.run(tensor)...
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NoReturn

from flowengine.core.public_names.missing import missing_member
from flowengine.graphs.errors import ConstructionTypeError

_SYMBOLIC: Final = "'{}' stands for a value that exists only while a session runs; it has no {} here; {}"
_RUN: Final = "session.run(tensor) returns it"


class SymbolicValue:
    """The conversions to values that Python and NumPy ask for. Each raises ConstructionTypeError."""

    __slots__ = ()

    def __bool__(self) -> NoReturn:
        raise self._has_no(
            "truth value", "build a conditional instead, such as graph.cond(pred, if_true, if_false)"
        )

    def __format__(self, form: str) -> str:
        if form:
            raise self._has_no(f"number to be formatted as {form!r}", _RUN)
        return str(self)

    if not TYPE_CHECKING:  # Type checkers report missing attributes themselves.

        def __getattr__(self, name):
            raise missing_member(self, name, "OF_TENSORS")

        def __iter__(self):
            raise self._has_no("elements", "use fe.unstack, fe.split or graph.map")

        def __contains__(self, element):
            raise self._has_no("elements", "use fe.reduce_any(fe.equal(tensor, element))")

        def __len__(self):
            raise self._has_no("length", "look at its shape, or use fe.shape or fe.size")

        def __array__(self, *_, **__):
            raise self._has_no("array", "a session's run returns one")

        def __float__(self):
            raise self._has_no("number", _RUN)

        def __int__(self):
            raise self._has_no("number", _RUN)

        def __complex__(self):
            raise self._has_no("number", _RUN)

        def __round__(self, digits=None):
            raise self._has_no("number", "use fe.round, or fetch it first")

        def __setitem__(self, key, value):
            raise self._has_no(
                "elements to assign",
                "fe.tensor_scatter_update returns a changed copy, variable.scatter_update changes a variable",
            )

    def _has_no(self, what: str, advice: str) -> ConstructionTypeError:
        named: Any = self
        return ConstructionTypeError(_SYMBOLIC.format(named.name, what, advice))


__all__ = ["SymbolicValue"]
