"""Imported by each process of a soak: signals turn the collector off, and have it say what it finds.

SIGUSR1   nothing is collected from now on
SIGUSR2   collect all at once, write what was ours into the folder that `SOAK_FOLDER` names, go on as usual
"""

from __future__ import annotations

import gc
import json
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

from tests.garbage import is_ours


def turn_off() -> None:
    """Turn the collector off, after it has freed the garbage that there is now."""
    gc.collect()
    gc.disable()


def found() -> dict[str, int]:
    """{class: how many of ours the collector finds}; it is on again afterwards."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    names = Counter(type(each).__name__ for each in gc.garbage if is_ours(each))
    gc.set_debug(0)
    gc.garbage.clear()
    gc.enable()
    gc.collect()
    return dict(names)


def _turn_off(number: int, frame: Any) -> None:
    turn_off()


def _say(number: int, frame: Any) -> None:
    path = Path(os.environ["SOAK_FOLDER"], str(os.getpid()))
    path.with_suffix(".aside").write_text(json.dumps(found()))
    path.with_suffix(".aside").rename(path)


signal.signal(signal.SIGUSR1, _turn_off)
signal.signal(signal.SIGUSR2, _say)
