"""A process that plays inputs and says what it is at: what crashes or hangs takes nothing else along.

It is given a kind and a range of seeds, or one file to play, on its command line, and writes a line of JSON
before and after each. Its address space is limited, as a last fence; the engine's own limit comes before it.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import re
import sys
import traceback
from pathlib import Path
from typing import Any, Final

from tests.tools.fuzz.given import GivenBases
from tests.tools.fuzz.kinds import KINDS, made
from tests.tools.fuzz.playing import MEMORY_LIMIT, STEP_SECONDS, play

#: What a play may hold beyond the engine's limit: its own machinery, and ten times its input.
_SPARE: Final = 64 << 20
_TIMES_INPUT: Final = 10
#: The last fence, beyond what the process has when it begins.
_FENCE: Final = 4 << 30


def _fence() -> None:
    try:
        import resource
    except ImportError:
        return
    size = _status("VmSize")
    resource.setrlimit(resource.RLIMIT_AS, (size + _FENCE, size + _FENCE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _status(name: str) -> int:
    """A number of bytes from /proc/self/status; 0 where there is none."""
    try:
        found = re.search(rf"{name}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    except OSError:
        return 0
    return int(found[1]) * 1024 if found else 0


def _forget_peak() -> bool:
    """Let the peak of resident memory begin here; False where the system does not have that."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return True


def report(kind: str, data: bytes, seconds: float = STEP_SECONDS) -> dict[str, Any]:
    """Play an input: {"outcome": ...}, with "finding" and what there is to say where it is one."""
    counted = _forget_peak()
    before = _status("VmRSS")
    try:
        told: dict[str, Any] = {"outcome": play(kind, data, seconds=seconds)}
    except BaseException as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.name}"
        text = traceback.format_exc(limit=-12)
        told = {"outcome": "raised", "finding": f"{type(error).__name__} in {where}", "text": text}
        if isinstance(error, KeyboardInterrupt):
            raise
    peak = _status("VmHWM") - before
    if counted and "finding" not in told and peak > MEMORY_LIMIT + _SPARE + _TIMES_INPUT * len(data):
        told |= {"outcome": "memory", "finding": "memory", "text": f"{peak} bytes more at the peak"}
    return told


def _say(**told: Any) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.fuzz.child")
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("--seeds", help="from:to")
    parser.add_argument("--bases", type=Path, help="a folder of good inputs, in place of the kind's own")
    parser.add_argument("--as-they-are", action="store_true", help="good inputs are played as they are")
    parser.add_argument("--file", type=Path, help="one input to play as it is")
    parser.add_argument("--seconds", type=float, default=STEP_SECONDS, help="the time that a step has")
    given = parser.parse_args()
    faulthandler.enable()
    _fence()
    if given.file is not None:
        _say(begin=0)
        _say(seed=0, **report(given.kind, given.file.read_bytes(), given.seconds))
        return
    first, last = map(int, given.seeds.split(":"))
    bases = None if given.bases is None else GivenBases(given.bases)
    for seed in range(first, last):
        _say(begin=seed)
        if bases is None:
            _say(seed=seed, **report(given.kind, made(given.kind, seed), given.seconds))
        else:
            group, good = bases.of(seed)
            lightly = bases.is_light(seed)
            data = good if given.as_they_are else made(given.kind, seed, (good,), lightly=lightly)
            _say(seed=seed, group=group, **report(given.kind, data, given.seconds))


if __name__ == "__main__":
    main()
