"""Processes that have locked themselves in and wait: for the next session, or the next one of a session.

A process that has read no graph belongs to nobody yet, so it is kept by the run of trio and not by a session:
a program that opens a session for each request has the next at once. Each is for sessions of one kind, those
with equal settings and bounds and with the same files and folders behind the names in them.
"""

from __future__ import annotations

import logging
import math
import os
from dataclasses import dataclass, field
from typing import Final

import trio

from flowengine.core.bounds import Sandbox
from flowengine.core.config import Config
from flowengine.core.errors import OpError
from flowengine.sandbox.process import BoxProcess
from flowengine.sandbox.startup import start

logger: Final = logging.getLogger("flowengine.sandbox")

#: How long a process is kept when the last session is closed that could have taken it: it takes memory, some
#: 100 MB, and who opens a session more rarely does not mind to wait half a second.
_KEPT_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class BoxKind:
    """The properties that two processes must share for one to replace the other.

    places   (device, inode) of each file and folder that is named: what the kernel lets a process open
    """

    config: Config
    box: Sandbox
    places: tuple[tuple[int, int] | None, ...]

    @classmethod
    def of(cls, config: Config, box: Sandbox) -> BoxKind:
        """The kind of a process that were started now."""
        return cls(config, box, tuple(map(_place, (*box.read, *box.write))))


def _place(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


@dataclass(eq=False, slots=True)
class _Spare:
    """One that waits, or is being started."""

    kind: BoxKind
    process: BoxProcess | None = None
    #: Around its waiting: cancelled when it is taken, late when nobody wants it.
    waiting: trio.CancelScope = field(default_factory=trio.CancelScope)


class SpareBoxes:
    """Those of one run, and who wants them."""

    def __init__(self) -> None:
        self._spares: list[_Spare] = []
        #: The bounds and settings of sessions that are open.
        self._wanting: list[tuple[Config, Sandbox]] = []

    def join(self, config: Config, box: Sandbox) -> None:
        """A session that wants processes with these bounds is open."""
        self._wanting.append((config, box))
        self._see_to(config, box)

    def leave(self, config: Config, box: Sandbox) -> None:
        """It is closed."""
        self._wanting.remove((config, box))
        self._see_to(config, box)

    def _see_to(self, config: Config, box: Sandbox) -> None:
        is_wanted = (config, box) in self._wanting
        due = math.inf if is_wanted else trio.current_time() + _KEPT_SECONDS
        for each in self._spares:
            if (each.kind.config, each.kind.box) == (config, box):
                each.waiting.deadline = due

    def take(self, config: Config, box: Sandbox) -> BoxProcess | None:
        """One that waits; None where there is none of this kind."""
        kind = BoxKind.of(config, box)
        for each in tuple(self._spares):
            if each.kind == kind and each.process is not None:
                self._spares.remove(each)
                process, each.process = each.process, None
                each.waiting.cancel()
                if process.is_alive:
                    return process
        return None

    def begin(self, config: Config, box: Sandbox) -> None:
        """Have one lock itself in, unless one of the kind waits or is about to."""
        kind = BoxKind.of(config, box)
        if not any(each.kind == kind for each in self._spares):
            spare = _Spare(kind)
            self._spares.append(spare)
            trio.lowlevel.spawn_system_task(self._keep, spare, name="flowengine spare sandbox")

    async def _keep(self, spare: _Spare) -> None:
        try:
            spare.process = process = await start(spare.kind.config, spare.kind.box, warms=True)
            with spare.waiting:
                await process.wait_ended()
        except (OpError, OSError) as error:
            # Whoever needs a process will hear so as well.
            logger.warning("there is no spare sandbox: %s", error)
        finally:
            if spare in self._spares:
                self._spares.remove(spare)
            if spare.process is not None:
                spare.process.kill()


_spares: Final[trio.lowlevel.RunVar[SpareBoxes]] = trio.lowlevel.RunVar("flowengine spare sandboxes")


def current_spares() -> SpareBoxes:
    """Those of this run of trio."""
    try:
        return _spares.get()
    except LookupError:
        made = SpareBoxes()
        _spares.set(made)
        return made


__all__ = ["BoxKind", "SpareBoxes", "current_spares"]
