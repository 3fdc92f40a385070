"""The common display of all kinds of sessions, and their warning when they are left open.

>>> session                                                     # doctest: +SKIP
<flowengine.blocking.Session of <Graph of 3 nodes, to be fed x:0>, open>
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, ClassVar

from flowengine.core.public_names.deprecated import warn_renamed
from flowengine.core.public_names.missing import missing_member


class SessionView:
    """The common manners of sessions: `repr`, a notebook's view, a ResourceWarning.

    A session that is collected while it holds something open warns. One that has run nothing holds nothing.
    """

    #: What it is called in texts.
    _called: ClassVar[str] = "flowengine.Session"
    #: What stands before `session.call(...)` in a façade's programs: "" or "await "; None in trio programs.
    _await: ClassVar[str | None] = None
    #: Whether another session stands before this one, and warns in its place.
    _is_behind_another = False

    def _shown_graph(self) -> Any:
        """The graph whose steps it runs; None where there is none yet."""
        raise NotImplementedError

    def _state(self) -> str:
        """In a word whether it can run steps: open, closed."""
        raise NotImplementedError

    def _facts(self) -> Iterable[tuple[str, object]]:
        """(name, value) of what else a notebook shows."""
        return ()

    def _holds_open(self) -> bool:
        """Whether something is open that `close` would have closed; asked of half-made sessions too."""
        return False

    @property
    def incarnation(self) -> int:
        """Which process holds a sandboxed session's state: another after a death; 0 before it, and here."""
        return getattr(getattr(self, "elsewhere", None), "incarnation", 0)

    def _abandon(self) -> None:
        """Let go of what is open, without waiting: nobody is left who could."""

    if not TYPE_CHECKING:  # Type checkers say by themselves what a session has, and which `with` it is for.

        def __getattr__(self, name):
            raise missing_member(self, name, "OF_SESSIONS")

        def __enter__(self):
            raise self._wrong_statement()

        def __exit__(self, *error):
            raise self._wrong_statement()

        async def __aenter__(self):
            raise self._wrong_statement()

        async def __aexit__(self, *error):
            raise self._wrong_statement()

    def initialise(self, *args: Any, **keywords: Any) -> Any:
        """The old name of `initialize`; emits a DeprecationWarning."""
        warn_renamed("session.initialise", "session.initialize")
        session: Any = self
        return session.initialize(*args, **keywords)

    def uninitialised(self, *args: Any, **keywords: Any) -> Any:
        """The old name of `uninitialized`; emits a DeprecationWarning."""
        warn_renamed("session.uninitialised", "session.uninitialized")
        session: Any = self
        return session.uninitialized(*args, **keywords)

    def _wrong_statement(self) -> TypeError:
        """The error of the `with` statement that this kind of session is not for."""
        if self._await == "":
            return TypeError(f"{self._called} is a plain context manager: use `with`, not `async with`")
        return TypeError(
            f"{self._called} is an asynchronous context manager: use `async with` in an async function; "
            "a script or notebook opens fe.blocking.Session using `with`"
        )

    def __repr__(self) -> str:
        return f"<{self._called} of {self._shown_graph()!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        from flowengine.core import html  # which nobody needs who is in no notebook

        graph = self._shown_graph()
        drawn = graph._repr_html_() if hasattr(graph, "_repr_html_") else html.code(repr(graph))
        facts = html.table([("state", self._state()), *self._facts()])
        return f"<div>{html.code(self._called)}{facts}{drawn}</div>"

    def __del__(self) -> None:
        if self._is_behind_another or not self._holds_open():
            return
        try:
            warnings.warn(f"{self!r} was not closed", ResourceWarning, source=self, stacklevel=1)
        finally:
            self._abandon()


__all__ = ["SessionView"]
