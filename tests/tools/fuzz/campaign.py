"""Many seeds of one kind: children that play them, what they found, and where to go on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import IO, Any, ClassVar, Final

from tests.tools.fuzz.given import GivenBases

#: The wait for a play is parted into so many.
_LOOKS: Final = 20
#: Who takes less of the processor than this part of a wait does not work but waits.
_WORKS: Final = 0.01
#: A play that says nothing for so long hangs: its own deadline is a second. On a busy machine the time counts
#: that its process had.
HANG_SECONDS: Final = 20.0


#: How an input ends whose arguments are refused, when the graph is read or when the step runs.
_REFUSED: Final = frozenset(
    {"ConstructionValueError", "ConstructionTypeError", "InvalidArgumentError", "UnimplementedError"}
)


@dataclass
class CampaignTally:
    """The totals of a campaign so far.

    at         the next seed
    outcomes   {"value" or the class of an error: how often}
    findings   one row each
    groups     {group of the good inputs: [how often it was played, how often its arguments were accepted]}
    """

    #: So often each op is to be played, and so often its arguments are to be accepted, for its kernel to have
    #: been tried at all.
    PLAYED: ClassVar[int] = 20
    ACCEPTED: ClassVar[int] = 10

    at: int
    outcomes: Counter[str] = field(default_factory=Counter)
    findings: list[dict[str, Any]] = field(default_factory=list)
    groups: dict[str, list[int]] = field(default_factory=dict)

    @property
    def is_full(self) -> bool:
        """Whether each group was played as often as it is to be."""
        return all(played >= self.PLAYED for played, _ in self.groups.values())

    def seldom(self) -> list[str]:
        """ "NAME PLAYED/ACCEPTED" of each group that was played or accepted too seldom, the rarest first."""
        return [
            f"{name} {played}/{accepted}"
            for accepted, played, name in sorted((row[1], row[0], name) for name, row in self.groups.items())
            if played < self.PLAYED or accepted < self.ACCEPTED
        ]

    def count(self, told: Mapping[str, Any]) -> None:
        """Take in what a child told of one input."""
        self.outcomes[told["outcome"]] += 1
        if "group" in told:
            row = self.groups.setdefault(told["group"], [0, 0])
            row[0] += 1
            row[1] += told["outcome"] not in _REFUSED


class Child:
    """A playing process and the lines that it says."""

    #: Before its first play it imports, and reads what it begins with: on a busy machine that takes long.
    _START_SECONDS: Final = 300.0

    def __init__(self, arguments: list[str], folder: Path) -> None:
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": "1"}
        with (folder / "stderr.txt").open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.tools.fuzz.child", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                text=True,
            )
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        assert self._process.stdout is not None
        self._reader = Thread(target=self._read, args=(self._process.stdout,), daemon=True)
        self._reader.start()

    def _read(self, stream: IO[str]) -> None:
        with stream:
            for line in stream:
                self._lines.put(line)
        self._lines.put(None)

    def told(self, hang_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the child's messages until it ends; raise TimeoutError if it says nothing for too long."""
        patience = self._START_SECONDS
        while True:
            line = self._next(patience)
            if line is None:
                return
            patience = hang_seconds
            yield json.loads(line)

    def _next(self, seconds: float) -> str | None:
        """Its next line.

        It is waited for in parts. A process that works spends the time that it had of the processor, and one
        that stands still the wall's: neither a busy machine nor one that stood still makes a hang.
        """
        part = seconds / _LOOKS
        while seconds > 0:
            before = self._cpu_seconds()
            with suppress(Empty):
                return self._lines.get(timeout=part)
            worked = self._cpu_seconds() - before
            seconds -= min(worked, part) if worked > part * _WORKS else part
        raise TimeoutError

    def _cpu_seconds(self) -> float:
        """Return the processor seconds of its threads; 0 if the system does not tell, or it is gone."""
        try:
            text = Path(f"/proc/{self._process.pid}/stat").read_text()
        except OSError:
            return 0.0
        # What stands behind the name, which may hold anything.
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def abort(self) -> None:
        """End it; what its threads are at is written to its errors."""
        self._process.send_signal(signal.SIGABRT)

    def end(self) -> int:
        """Its exit status, once it has ended; it is killed if it has not."""
        if self._process.poll() is None:
            try:
                self._process.wait(1)
            except subprocess.TimeoutExpired:
                self._process.kill()
        status = self._process.wait()
        self._reader.join()
        return status


def run(
    kind: str,
    first: int,
    last: int,
    folder: Path,
    *,
    bases: Path | None = None,
    as_they_are: bool = False,
    hang_seconds: float = HANG_SECONDS,
    progress: Callable[[CampaignTally], object] = lambda _: None,
) -> CampaignTally:
    """Play the seeds from `first` up to `last`; what was played before in this folder is not played again.

    The folder gets the tally, and for each finding the input and what happened.

    as_they_are   inputs of `bases` are played and not damaged
    """
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / f"{kind}-{first}-{last}.json"
    tally = _resumed(state, first)
    made_again = partial(_made_again, kind, bases=bases, as_they_are=as_they_are)
    while tally.at < last:
        arguments = [kind, "--seeds", f"{tally.at}:{last}"]
        if bases is not None:
            arguments += ["--bases", str(bases), *(["--as-they-are"] if as_they_are else [])]
        child = Child(arguments, folder)
        playing: int | None = None
        what = ""
        try:
            for told in child.told(hang_seconds):
                if "begin" in told:
                    playing = told["begin"]
                    continue
                playing = None
                tally.count(told)
                if "finding" in told:
                    _keep(kind, told, folder, tally, made_again)
                tally.at = told["seed"] + 1
                if tally.at % 500 == 0:
                    _write(state, tally)
                    progress(tally)
        except TimeoutError:
            what = "hang"
            child.abort()
        status = child.end()
        if playing is not None:
            what = what or f"crash with status {status}"
            tally.outcomes[what] += 1
            text = (folder / "stderr.txt").read_text(errors="replace")[-4000:]
            _keep(kind, {"seed": playing, "finding": what, "text": text}, folder, tally, made_again)
            tally.at = playing + 1
        elif tally.at < last:
            text = (folder / "stderr.txt").read_text(errors="replace")[-2000:]
            raise RuntimeError(f"a child ended with status {status} between two inputs: {text}")
        _write(state, tally)
    return tally


def _made_again(kind: str, seed: int, bases: Path | None, as_they_are: bool) -> bytes:
    from tests.tools.fuzz.kinds import made

    if bases is None:
        return made(kind, seed)
    given = GivenBases(bases)
    good = given.of(seed)[1]
    return good if as_they_are else made(kind, seed, (good,), lightly=given.is_light(seed))


def _keep(
    kind: str, told: dict[str, Any], folder: Path, tally: CampaignTally, made: Callable[[int], bytes]
) -> None:
    name = f"{kind}-{told['seed']}"
    (folder / f"{name}.bin").write_bytes(made(told["seed"]))
    row = {"kind": kind, "seed": told["seed"], "finding": told["finding"], "text": told["text"]}
    (folder / f"{name}.json").write_text(json.dumps(row, indent=1))
    tally.findings.append({"kind": kind, "seed": told["seed"], "finding": told["finding"]})


def _resumed(state: Path, first: int) -> CampaignTally:
    if not state.is_file():
        return CampaignTally(first)
    table = json.loads(state.read_text())
    return CampaignTally(table["at"], Counter(table["outcomes"]), table["findings"], table["groups"])


def _write(state: Path, tally: CampaignTally) -> None:
    state.write_text(json.dumps(vars(tally)))


def finding_of(kind: str, data: bytes, folder: Path, hang_seconds: float = HANG_SECONDS) -> str | None:
    """Return the finding of an input, played in its own child process; None if it ends as it should."""
    path = folder / "candidate.bin"
    path.write_bytes(data)
    child = Child([kind, "--file", str(path)], folder)
    finding: str | None = None
    begun = False
    try:
        for told in child.told(hang_seconds):
            begun = "begin" in told
            finding = told.get("finding", finding)
    except TimeoutError:
        child.end()
        return "hang"
    status = child.end()
    return f"crash with status {status}" if begun else finding
