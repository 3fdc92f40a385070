"""`--import MODULE`: ops, kernels and device types of one's own, registered before anything else happens."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from flowengine.cli.failure import USAGE, CommandError

Command = TypeVar("Command", bound=Callable[..., Any])
#: Where a context keeps the names.
_IMPORTED: Final = "flowengine.imported"


def import_option(command: Command) -> Command:
    """Give a command `--import`. Its modules are imported while the options are read."""
    return click.option(
        "--import",
        multiple=True,
        metavar="MODULE",
        expose_value=False,
        is_eager=True,
        callback=_import_all,
        help="Import a module of your own first, which registers ops, kernels or devices.",
    )(command)


def imported(context: click.Context) -> list[str]:
    """The modules that this command line has imported, in order."""
    found: list[str] = context.meta.setdefault(_IMPORTED, [])
    return found


def _import_all(context: click.Context, _: click.Parameter, names: Sequence[str]) -> None:
    for name in names:
        if name.endswith(".py"):
            stem = os.path.splitext(os.path.basename(name))[0]
            raise CommandError(f"--import {name}: write the module's name: --import {stem}", USAGE)
        if os.getcwd() not in sys.path:
            sys.path.insert(0, os.getcwd())
        try:
            importlib.import_module(name)
        except Exception as error:
            raise CommandError(f"--import {name}: {type(error).__name__}: {error}", USAGE) from error
        imported(context).append(name)
