"""`flowengine trace`: the longest work and waits, the idle threads and the critical path of a traced step."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

import click

from flowengine.cli.failure import UNREADABLE_GRAPH, CommandError, printable
from flowengine.cli.results import dumps

if TYPE_CHECKING:
    from flowengine.runtime.tracing.critical_path import PathPart
    from flowengine.runtime.tracing.events import TraceEvent
    from flowengine.runtime.tracing.joint_trace import TracedTask

HELP: Final = """\
Summarize a timeline that `flowengine run --trace FILE` or `RunMetadata.timeline()` has written.

It shows how long the step took, what took longest, what it waited for, how much of the time each thread was
busy, and the critical path: the chain of work and waits that the end of the step waited for. Of a step that
failed or was cancelled, it shows what had begun and not ended.
"""

_ROWS: Final = 8


@click.command("trace", help=HELP)
@click.argument("file", type=click.Path())
@click.option("--top", type=click.IntRange(min=1), default=_ROWS, metavar="N", help="Show N rows of each.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(file: str, top: int, as_json: bool, debug: bool) -> None:
    summary = summarized(*_read(file))
    if as_json:
        click.echo(dumps(summary), nl=False)
        return
    for line in _lines(summary, top):
        click.echo(line)


def _read(file: str) -> tuple[list[TraceEvent], dict[str, TracedTask]]:
    from flowengine.core.errors import InvalidArgumentError
    from flowengine.runtime.tracing.timeline import read_tasks, read_timeline

    try:
        with open(file, "rb") as stream:
            text = stream.read()
        return read_timeline(text), read_tasks(text)
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}", UNREADABLE_GRAPH) from error
    except InvalidArgumentError as error:
        raise CommandError(f"{file}: {error.message}", UNREADABLE_GRAPH) from error


def summarized(
    events: Sequence[TraceEvent], tasks: Mapping[str, TracedTask] = MappingProxyType({})
) -> dict[str, Any]:
    """Return the facts of a step: seconds by what took them, longest first.

    tasks   the parts of a step over several tasks
    """
    from flowengine.runtime.tracing.critical_path import critical_path
    from flowengine.runtime.tracing.events import WAITS
    from flowengine.runtime.tracing.profile import profile_of, undivided

    end = max((event.ended for event in events), default=0.0)
    path = critical_path(events)
    busy: dict[str, float] = {}
    is_of_many = len({event.device for event in events}) > 1
    for event in undivided(events):
        if event.thread:
            name = f"{event.thread} at {_short(event.device)}" if is_of_many else event.thread
            busy[name] = busy.get(name, 0.0) + event.seconds
    return {
        "seconds": end,
        "events": len(events),
        "work": {each.name: each.seconds for each in profile_of(events, "node").entries},
        "waits": _summed((event.name, event.seconds) for event in events if event.kind in WAITS),
        "busy": {thread: seconds / end if end else 0.0 for thread, seconds in busy.items()},
        "critical_path": _summed((_title(link, is_of_many), link.seconds) for link in path),
        "unfinished": _unfinished(events, is_of_many),
        **({"tasks": {task: asdict(part) for task, part in tasks.items()}} if tasks else {}),
    }


def _title(link: PathPart, is_of_many: bool) -> str:
    return f"{link.kind}: {link.name}" + (f" at {_short(link.device)}" if is_of_many else "")


def _unfinished(events: Iterable[TraceEvent], is_of_many: bool) -> dict[str, float]:
    """Return {what had not ended when the step did: for how long it had run or waited}."""
    found: dict[str, float] = {}
    for event in events:
        if "unfinished" in event.detail:
            name = event.detail.get("waits_for") or event.name
            title = name if name != event.name or event.kind == "wait" else f"{event.kind} {name}"
            title += f" at {_short(event.device)}" if is_of_many else ""
            found[title] = max(found.get(title, 0.0), event.seconds)
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _short(device: str) -> str:
    return device.replace("/replica:0", "").replace("/device:", "/")


def _summed(rows: Iterable[tuple[str, float]]) -> dict[str, float]:
    found: dict[str, float] = {}
    for name, seconds in rows:
        found[name] = found.get(name, 0.0) + seconds
    return dict(sorted(found.items(), key=lambda row: -row[1]))


def _lines(summary: dict[str, Any], top: int) -> Iterator[str]:
    yield f"{1e3 * summary['seconds']:.3f} ms, {summary['events']} events"
    sections = {
        "longest work": "work",
        "waits": "waits",
        "critical path": "critical_path",
        "unfinished at the end": "unfinished",
    }
    for title, key in sections.items():
        rows = [*summary[key].items()]
        if rows:
            yield f"\n{title}"
            yield from (f"  {1e3 * seconds:10.3f} ms  {printable(name)}" for name, seconds in rows[:top])
            if len(rows) > top:
                rest = sum(seconds for _, seconds in rows[top:])
                yield f"  {1e3 * rest:10.3f} ms  in {len(rows) - top} more"
    if summary["busy"]:
        yield "\nbusy"
        yield from (f"  {share:10.1%}     {thread}" for thread, share in sorted(summary["busy"].items()))

    if "tasks" in summary:
        yield "\ntasks"
        for task, part in summary["tasks"].items():
            clock = f"clock {part['clock_offset']:+.6f} s, within {1e3 * part['clock_error']:.3f} ms"
            yield f"  {task}  {clock}  {part['events']} events  {printable(part['outcome'])}"


__all__ = ["command", "summarized"]
