"""The display that all kinds of sessions share, and their warning if they are not closed.

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
    """A base of sessions: their `repr`, the view in a notebook, and a ResourceWarning.

    A session emits it if it is collected while it holds something open, as after its first step.
    """

    #: Its name in messages.
    _called: ClassVar[str] = "flowengine.Session"
    #: The word before `session.call(...)` in a façade's programs: "" or "await "; None in trio programs.
    _await: ClassVar[str | None] = None
    #: Whether another session stands before this one, and warns in its place.
    _is_behind_another = False

    def _shown_graph(self) -> Any:
        """Return the graph whose steps it runs; None if it has none yet."""
        raise NotImplementedError

    def _state(self) -> str:
        """Return in a word whether it can run steps: open, closed."""
        raise NotImplementedError

    def _facts(self) -> Iterable[tuple[str, object]]:
        """Return (name, value) of other facts that a notebook shows."""
        return ()

    def _holds_open(self) -> bool:
        """Whether it holds something open that `close` would close; also called if `__init__` failed."""
        return False

    @property
    def incarnation(self) -> int:
        """The number of the process that holds a sandboxed session's state, new after a crash; 0 if none."""
        return getattr(getattr(self, "elsewhere", None), "incarnation", 0)

    def _abandon(self) -> None:
        """Release what is open, without waiting: the session is being collected."""

    if not TYPE_CHECKING:  # A type checker finds a wrong name or a wrong `with` by itself.

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
        """Call `initialize` with `args` and `keywords`: the old name, which emits a DeprecationWarning."""
        warn_renamed("session.initialise", "session.initialize")
        session: Any = self
        return session.initialize(*args, **keywords)

    def uninitialised(self, *args: Any, **keywords: Any) -> Any:
        """Call `uninitialized` with `args` and `keywords`: the old name, which emits a DeprecationWarning."""
        warn_renamed("session.uninitialised", "session.uninitialized")
        session: Any = self
        return session.uninitialized(*args, **keywords)

    def _wrong_statement(self) -> TypeError:
        """Return the error of the wrong `with` statement for this kind of session."""
        if self._await == "":
            return TypeError(f"{self._called} is a plain context manager: use `with`, not `async with`")
        return TypeError(
            f"{self._called} is an asynchronous context manager: use `async with` in an async function; "
            "a script or notebook opens fe.blocking.Session using `with`"
        )

    def __repr__(self) -> str:
        return f"<{self._called} of {self._shown_graph()!r}, {self._state()}>"

    def _repr_html_(self) -> str:
        from flowengine.core import html  # only notebooks need it

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
