"""`flowengine sandbox`: what this machine gives to lock a stranger's graph in."""

from __future__ import annotations

from typing import Final

import click

from flowengine.cli.failure import STEP_ERROR
from flowengine.cli.results import dumps

HELP: Final = """\
Print which mechanisms of a sandbox this machine has.

The mechanisms are limits on memory, time and files; Landlock, which restricts the files that the process can
open; and seccomp, which restricts its system calls. If one is missing, the exit code is 1, and sessions and
--sandbox refuse to run unless you allow them to run without it.
"""


@click.command("sandbox", help=HELP)
@click.option("--check", is_flag=True, help="Check this machine.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(ctx: click.Context, check: bool, as_json: bool, debug: bool) -> None:
    from flowengine.sandbox import confine

    without = confine.missing()
    found = {level: without.get(level, "") for level in confine.LEVELS}
    if as_json:
        click.echo(dumps({level: {"there": not why, "why": why} for level, why in found.items()}), nl=False)
    else:
        for level, why in found.items():
            there = f"version {confine.landlock_version()}" if level == confine.LANDLOCK else "there"
            click.echo(f"{level:<10}{(why and f'missing: {why}') or there}")
    if without:
        ctx.exit(STEP_ERROR)
