"""Play recorded cases in this engine and say what differs.

`replay_case` plays one case in the calling process; `tests.tools.workers` plays many in processes
that may be killed.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeAlias

import trio
import trio.testing

import flowengine as fe
from flowengine.core.errors import OpError
from tests.tools.placements import RandomPlacer
from tests.tools.recorded import RecordedCase, RecordedRun, difference, open_case

#: How long a run of a concurrent case is given to block before the next one starts.
_SETTLE_SECONDS: Final = 0.3
_MISSING: Final = re.compile(r"(?:Op type not registered|No OpKernel was registered to support Op) '([^']+)'")


@dataclass(frozen=True, slots=True)
class ReplayOutcome:
    """The outcome of one run: `values`, or the class and text of its error."""

    values: Sequence[Any] = ()
    error_class: str | None = None
    message: str = ""
    missing_op: str | None = None
    op_type: str | None = None


@dataclass(frozen=True, slots=True)
class Result:
    """The verdict on one case.

    status       "pass"; "fail" (a wrong value, or the wrong error); "error" (raised, died or stalled)
    run, fetch   where it first went wrong
    missing_op   the op that has no definition or no kernel, where that is the reason
    op_type      the op of the node that failed, where an error says it
    """

    id: str
    suite: str
    ops: Sequence[str]
    status: str
    why: str = ""
    run: int | None = None
    fetch: str | None = None
    missing_op: str | None = None
    seconds: float = 0.0
    address: str = ""
    op_type: str | None = None


async def _run(session: fe.Session, case: RecordedCase, run: RecordedRun) -> ReplayOutcome:
    case.prepare_run(run)
    options = None if run.timeout_seconds is None else fe.RunOptions(timeout_seconds=run.timeout_seconds)
    try:
        values = await session.run(list(run.fetches), run.feeds, targets=list(run.targets), options=options)
        return ReplayOutcome(values=list(values))
    except OpError as error:
        return ReplayOutcome((), type(error).__name__, str(error), error.missing_op, error.op_type)
    except Exception as error:
        text = "".join(traceback.format_exception(error)[-3:])
        return ReplayOutcome((), type(error).__name__, text[-1500:])


async def _settle() -> None:
    """Let what has been started come to rest, so that what is started next comes after it."""
    with trio.move_on_after(_SETTLE_SECONDS):
        await trio.testing.wait_all_tasks_blocked(cushion=0.01)


@dataclass(frozen=True, slots=True)
class RandomPlacement:
    """Play on so many CPU devices, every node placed at random by seed."""

    devices: int
    seed: int = 0


#: Opens the session that a case is played in.
Opener: TypeAlias = Callable[[fe.Graph], fe.Session]


def _session(graph: fe.Graph, scattered: RandomPlacement | Opener | None) -> fe.Session:
    if scattered is None:
        return fe.Session(graph)
    if not isinstance(scattered, RandomPlacement):
        return scattered(graph)
    return fe.Session(
        graph,
        config=fe.Config(device_count={"CPU": scattered.devices}),
        placer=RandomPlacer(graph, scattered.devices, scattered.seed),
    )


async def play(
    case: RecordedCase, outcomes: list[ReplayOutcome], scattered: RandomPlacement | Opener | None = None
) -> None:
    """Play the runs of a case in one session, filling `outcomes`, which has one entry a run."""
    async with _session(fe.Graph.from_graph_def(case.graph), scattered) as session:
        if case.is_concurrent:
            await _play_concurrently(session, case, outcomes)
            return
        async with trio.open_nursery() as nursery:
            for i, run in enumerate(case.runs):
                if run.background:
                    nursery.start_soon(_play_into, session, case, i, outcomes)
                    await _settle()
                else:
                    await _play_into(session, case, i, outcomes)
                    if outcomes[i].error_class != run.error_class:
                        # The verdict stands, and what runs later may wait for what this one did not do.
                        nursery.cancel_scope.cancel()


async def _play_into(
    session: fe.Session, case: RecordedCase, index: int, outcomes: list[ReplayOutcome]
) -> None:
    outcomes[index] = await _run(session, case, case.runs[index])


async def _play_concurrently(session: fe.Session, case: RecordedCase, outcomes: list[ReplayOutcome]) -> None:
    ended = [trio.Event() for _ in case.runs]

    async def play_one(index: int) -> None:
        await _play_into(session, case, index, outcomes)
        ended[index].set()

    moments: list[tuple[int, int | None]] = [(run.start, i) for i, run in enumerate(case.runs)]
    moments += [(when, None) for when in case.closes]
    async with trio.open_nursery() as nursery:
        for when, index in sorted(moments, key=lambda m: m[0]):
            for run, event in zip(case.runs, ended, strict=True):
                if run.end < when:
                    await event.wait()
            await _settle()
            if index is None:
                await session.close()
            else:
                nursery.start_soon(play_one, index)


def judge(case: RecordedCase, outcomes: Sequence[ReplayOutcome]) -> Result:
    """Compare what the runs did with what was recorded; the first difference decides."""

    def verdict(status: str, **more: Any) -> Result:
        return Result(case.id, case.suite, sorted(case.ops), status, **more)

    for i, (run, outcome) in enumerate(zip(case.runs, outcomes, strict=True)):
        if outcome.error_class is not None:
            if outcome.error_class == run.error_class:
                continue
            missing = outcome.missing_op or _missing_op(outcome.message)
            expected = "" if run.error_class is None else f", expected {run.error_class}"
            return verdict(
                "fail" if run.error_class and not missing else "error",
                run=i,
                missing_op=missing,
                op_type=outcome.op_type,
                why=f"raised {outcome.error_class}{expected}: {outcome.message}",
            )
        if run.error_class is not None:
            return verdict("fail", run=i, why=f"no error, expected {run.error_class}")
        if len(outcome.values) != len(run.expect):
            return verdict("fail", run=i, why=f"{len(outcome.values)} values, expected {len(run.expect)}")
        for fetch, expected_value, value in zip(run.fetches, run.expect, outcome.values, strict=True):
            wrong = difference(expected_value, value)
            if wrong is not None:
                return verdict("fail", run=i, fetch=fetch, why=wrong)
    return verdict("pass")


def _missing_op(message: str) -> str | None:
    match = _MISSING.search(message)
    return match.group(1) if match else None


@contextlib.contextmanager
def prepared_case(address: str, folder: str = "") -> Iterator[RecordedCase]:
    """A case with the files that it needs where it expects them. Changes the working directory meanwhile.

    folder   where they are put, and whatever it holds is removed afterwards: the working directory of other
             processes that run the graph; a new folder, if it is empty
    """
    case = open_case(address)
    with contextlib.ExitStack() as stack:
        if case.recorded_root:
            root = stack.enter_context(_folder_as_long_as(case.recorded_root, folder))
            case = open_case(address, root)
            case.prepare_files()
            if case.meta.get("chdir"):
                stack.enter_context(contextlib.chdir(case.io_root))
        elif os.path.isdir(address):
            scratch = folder or stack.enter_context(tempfile.TemporaryDirectory(prefix="replay-"))
            stack.callback(_empty, scratch)
            _copy_writable(address, scratch)
            stack.enter_context(contextlib.chdir(scratch))
        yield case


def replay_case(
    address: str, *, timeout_seconds: float = 10.0, scattered: RandomPlacement | None = None
) -> Result:
    """Play one case and judge it. Changes the working directory while a case needs files."""
    with prepared_case(address) as case:
        outcomes = [
            ReplayOutcome((), "Stall", f"did not finish within {timeout_seconds:g} s") for _ in case.runs
        ]
        try:
            trio.run(_play_within, case, outcomes, timeout_seconds, scattered)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            missing = getattr(error, "missing_op", None) or _missing_op(text)
            return Result(case.id, case.suite, sorted(case.ops), "error", text, missing_op=missing)
        return judge(case, outcomes)


async def _play_within(
    case: RecordedCase, outcomes: list[ReplayOutcome], seconds: float, scattered: RandomPlacement | None
) -> None:
    with trio.move_on_after(seconds):
        await play(case, outcomes, scattered)


@contextlib.contextmanager
def _folder_as_long_as(recorded: str, behind: str = "") -> Iterator[str]:
    """A new folder whose path has as many bytes as the recorded one, or a link to the folder `behind`."""
    base = tempfile.gettempdir()
    room = len(recorded.encode()) - len(base.encode()) - 1
    if room < 8:
        raise RuntimeError(f"the temporary folder {base!r} is too long a path for cases that need files")
    folder = os.path.join(base, secrets.token_hex(room)[:room])
    if not behind:
        os.mkdir(folder, 0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return
    os.symlink(behind, folder)
    try:
        yield folder
    finally:
        os.unlink(folder)
        _empty(behind)


def _empty(folder: str) -> None:
    """Remove whatever a folder holds."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path, ignore_errors=True)
            else:
                os.unlink(entry.path)


def _copy_writable(source: str, target: str) -> None:
    """Copy a folder; the copy may be written to even where the original may not."""
    for folder, _, names in os.walk(source):
        copy = Path(target, os.path.relpath(folder, source))
        copy.mkdir(parents=True, exist_ok=True)
        for name in names:
            shutil.copyfile(Path(folder, name), copy / name)


__all__ = ["RandomPlacement", "ReplayOutcome", "Result", "judge", "play", "replay_case"]
