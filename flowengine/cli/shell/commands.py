"""Commands that help: groups that suggest a command for a mistyped one, and help in sections."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click

#: The section of options that no section names.
_OTHERS: Final = "Other options"


class SuggestingGroup(click.Group):
    """A group that suggests the commands alike to one that it does not have."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        known = ctx.resilient_parsing or name.startswith("-") or self.get_command(ctx, name) is not None
        if not known:
            ctx.fail(f"No such command {name!r}.{self._suggested(ctx, name)}")
        return super().resolve_command(ctx, args)

    def _suggested(self, ctx: click.Context, name: str) -> str:
        """Return the sentence that follows; it is empty if nothing is alike."""
        import difflib  # for this alone

        alike = difflib.get_close_matches(name.lower(), self.list_commands(ctx), n=3, cutoff=0.6)
        if alike:
            return f" Did you mean {' or '.join(alike)}?"
        if ctx.parent is None and (os.path.exists(name) or "." in name):
            path = shlex.quote(name)
            return f" Did you mean {ctx.command_path} run {path} or {ctx.command_path} inspect {path}?"
        return ""


class SectionedCommand(click.Command):
    """A command whose help lists its options in sections, the common ones first.

    sections   {title: the names of the options' parameters, in order}; the others follow in a last section
    """

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of options for each section."""
        records = {
            parameter.name: record
            for parameter in self.get_params(ctx)
            if isinstance(parameter, click.Option) and (record := parameter.get_help_record(ctx)) is not None
        }
        for title, names in self.sections.items():
            shown = [records.pop(name) for name in names if name in records]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
        if records:
            with formatter.section(_OTHERS):
                formatter.write_dl(list(records.values()))


__all__ = ["SectionedCommand", "SuggestingGroup"]
