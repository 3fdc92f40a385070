"""Errors about an attribute that is not there, which say where it is or what to write instead.

    if not TYPE_CHECKING:
        __getattr__, __dir__ = public_module(__name__, __all__)

`hasattr` and imports swallow most of these errors, so the text is made only when somebody reads it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from types import MappingProxyType
from typing import Any, Final

#: Public modules in which a name is looked for, in the order of the answer. "" is `flowengine` itself.
_MODULES: Final = (
    "",
    "optimizers",
    "layers",
    "losses",
    "metrics",
    "nn",
    "rnn",
    "schedules",
    "initializers",
    "regularizers",
    "train",
    "data",
    "saved_model",
    "summary",
    "embedding",
    "ctc",
    "sampled",
    "dtypes",
    "errors",
    "testing",
)

#: So many places are named.
_PLACES_MAX: Final = 3


class MissingAttributeError(AttributeError):
    """An attribute that is not there. `str` of it says where the name is, as far as that is known."""

    def __init__(self, owner: str, name: str, advice: Callable[[str], str]) -> None:
        # With an `obj` Python would print a suggestion of its own behind this one's.
        super().__init__(owner, name, name=name, obj=None)
        self._owner, self._asked = owner, name
        self._advice = advice

    def __str__(self) -> str:
        return f"{self._owner} has no attribute '{self._asked}'{self._advice(self._asked)}"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


def public_module(
    module: str, names: Iterable[str], lazy: Mapping[str, str] = MappingProxyType({})
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a public module: only its public names are listed.

    lazy   {name: the module that it is imported from when it is first used}
    """
    shown = sorted(names)

    def missing(name: str) -> Any:
        if name in lazy:
            return getattr(import_module(lazy[name]), name)
        raise missing_name(module, name, shown)

    return missing, lambda: list(shown)


def missing_name(module: str, name: str, known: Iterable[str]) -> MissingAttributeError:
    """Return the error for a name that a public module does not have.

    module   its `__name__`; a user's name for it, such as "fe.optimizers", is what the error shows
    known    its public names
    """
    public = module if module == "flowengine" else f"fe.{_public_part(module)}"

    def advice(asked: str) -> str:
        from flowengine.core.public_names.elsewhere import OF_MODULES
        from flowengine.core.public_names.suggest import did_you_mean

        return _where(asked, OF_MODULES) or did_you_mean(asked, known)

    return MissingAttributeError(public, name, advice)


def missing_member(owner: object, name: str, table: str) -> MissingAttributeError:
    """Return the error for an attribute that an object does not have.

    table   in the module `elsewhere`, where to look first: "OF_TENSORS", "OF_GRAPHS" or "OF_SESSIONS"
    """
    kind = type(owner)

    def advice(asked: str) -> str:
        from flowengine.core.public_names import elsewhere
        from flowengine.core.public_names.suggest import did_you_mean

        own = [each for each in dir(kind) if not each.startswith("_")]
        return _where(asked, elsewhere.OF_MODULES | getattr(elsewhere, table)) or did_you_mean(asked, own)

    return MissingAttributeError(f"{kind.__name__!r} object", name, advice)


def _public_part(module: str) -> str:
    return module.rpartition(".")[2]


def _where(name: str, table: Mapping[str, str]) -> str:
    """Say where a name is, by the table or by looking; "" where it is nowhere."""
    if name.startswith("_"):
        return ""
    text = table.get(name) or table.get(name.removesuffix("Optimizer"))
    if text is not None:
        return f": {text}" if text.startswith(("there is", "functions ", "names ")) else f": use {text}"
    places = _places(name)
    return f": it is {' or '.join(places[:_PLACES_MAX])}" if places else ""


def _places(name: str) -> list[str]:
    """Every public place that has the name, up to case, underscores and the ending Optimizer."""
    import importlib

    public = importlib.import_module("flowengine")
    wanted = _plain(name)
    found = []
    for module in _MODULES:
        owner = getattr(public, module) if module else public
        path = f"fe.{module}" if module else "fe"
        found += [f"{path}.{each}" for each in dir(owner) if _plain(each) == wanted]
    methods = (
        ("graph", public.Graph),
        ("session", public.Session),
        ("variable", public.GraphVariable),
        ("fe.data.Dataset", public.data.Dataset),
    )
    for spoken, kind in methods:
        found += [f"{spoken}.{each}" for each in dir(kind) if each[0] != "_" and _plain(each) == wanted]
    if not found:
        ops = importlib.import_module("flowengine.ops.load").registry()
        found += [f"graph.ops.{op}" for op in dir(public.Graph().ops) if op in ops and _plain(op) == wanted]
    return found


def _plain(name: str) -> str:
    return name.removesuffix("Optimizer").replace("_", "").lower()


__all__ = ["MissingAttributeError", "missing_member", "missing_name", "public_module"]
