"""Completion of names: tensors and nodes of GRAPH, signatures, functions, tags, and checkpoints.

Each function is an option's `shell_complete`. It reads the graph that the line has named so far, and returns
nothing if there is none or it cannot be read: a completion never fails.
"""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource

Completer = Callable[[click.Context, click.Parameter, str], list[str]]

#: How many names a shell is given at most.
_NAMES_MAX: Final = 500


def _completer(complete: Callable[[GraphSource, click.Context, str], Iterable[str]]) -> Completer:
    """Make an option's `shell_complete` of a function of the graph; faults complete nothing."""

    def completed(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        from flowengine.cli.failure import CommandError
        from flowengine.cli.graphs import load_graph
        from flowengine.core.errors import OpError

        path = _argument(context, "graph", "meta")
        if path in ("", "-"):
            return []
        with contextlib.suppress(CommandError, OpError, OSError, ValueError):
            source = load_graph(path, context.params.get("tags") or (), ignored=[])
            return list(dict.fromkeys(complete(source, context, incomplete)))[:_NAMES_MAX]
        return []

    return completed


def _argument(context: click.Context, *names: str) -> str:
    """Return the path that the line names. Behind an option without its value, click has parsed none."""
    named = next((found for name in names if (found := context.params.get(name))), None)
    return str(named or next(iter(context.args), ""))


def _by_scope(names: Iterable[str], incomplete: str) -> Iterator[str]:
    """Yield names that begin so; below the next `/` only the scope, as a shell does with folders."""
    for name in names:
        if name.startswith(incomplete):
            scope, slash, _ = name[len(incomplete) :].partition("/")
            yield incomplete + scope + slash if slash else name


def _called(source: GraphSource, context: click.Context, side: str) -> list[str]:
    """The names of a signature's inputs or outputs; none if no signature would be called."""
    from flowengine.cli.models.signatures import called_signature

    chosen, function = context.params.get("signature"), context.params.get("function")
    called = called_signature(source, chosen, is_wanted=True, asks_by_name=False, function=function)
    return list(called.inputs if side == "inputs" else called.outputs)


def _feed(source: GraphSource, context: click.Context, incomplete: str) -> Iterable[str]:
    from flowengine.cli.overview import placeholders

    name, equals, path = incomplete.partition("=")
    if equals:
        return (f"{name}={found}" for found in paths(path))
    inputs = _called(source, context, "inputs")
    inputs = inputs or [each.node for each in placeholders(source.graph, source.hidden)]
    found = [f"{each}=" for each in inputs if each.startswith(incomplete)]
    return found or _by_scope(source.graph.nodes, incomplete)


def _fetch(source: GraphSource, context: click.Context, incomplete: str) -> Iterable[str]:
    from flowengine.cli.models.likely import proposed

    likely = _called(source, context, "outputs")
    likely = likely or [each.node for each in proposed(source.graph, source.hidden)]
    found = [each for each in likely if each.startswith(incomplete)]
    return found if found and not incomplete else [*found, *_by_scope(source.graph.nodes, incomplete)]


def _node(source: GraphSource, _: click.Context, incomplete: str) -> Iterable[str]:
    return _by_scope(source.graph.nodes, incomplete)


def _signature(source: GraphSource, _: click.Context, incomplete: str) -> Iterable[str]:
    return (name for name in source.signatures if name.startswith(incomplete))


def _function(source: GraphSource, _: click.Context, incomplete: str) -> Iterable[str]:
    from flowengine.cli.models.signatures import functions_in

    return (name for name in functions_in(source) if name.startswith(incomplete))


def paths(incomplete: str) -> list[str]:
    """Return files and folders whose path begins so; a folder ends in a slash."""
    found = sorted(glob.glob(f"{glob.escape(incomplete)}*"))
    return [f"{each}/" if os.path.isdir(each) else each for each in found]


def complete_checkpoint(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete the prefix of a checkpoint, or a folder on the way to one."""
    found = paths(incomplete)
    ending = ".index"
    return [each.removesuffix(ending) for each in found if each.endswith(("/", ending))]


def complete_folder(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """Complete a folder."""
    return [each for each in paths(incomplete) if each.endswith("/")]


def complete_variable(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Complete the name of a tensor in the checkpoint that the line names."""
    from flowengine.cli.checkpoint.reading import locate, opened, text_of
    from flowengine.cli.failure import CommandError

    with contextlib.suppress(CommandError):
        with opened(locate(_argument(context, "path", "one"))) as reader:
            names = [text_of(name) for name in reader.names()]
        return list(dict.fromkeys(_by_scope(names, incomplete)))
    return []


complete_feed: Final = _completer(_feed)
complete_fetch: Final = _completer(_fetch)
complete_node: Final = _completer(_node)
complete_signature: Final = _completer(_signature)
complete_function: Final = _completer(_function)


__all__ = [
    "complete_checkpoint",
    "complete_feed",
    "complete_fetch",
    "complete_folder",
    "complete_function",
    "complete_node",
    "complete_signature",
    "complete_variable",
    "paths",
]
