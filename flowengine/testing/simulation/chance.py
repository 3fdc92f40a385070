"""All chance of a simulation from one seed: the order of trio's tasks, and what the engine throws dice for.

with seeded(7):
    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))

Trio runs the tasks of one turn in random order. Under Hypothesis it sorts them first, so that a seed decides
that order; the switch for it and the generator have no public name, and this module is the only one that
knows their private ones. What the engine draws (incarnations, nonces, numbers of steps) and what it measures
(seconds of real time, which decide when a slice ends) comes from the seed and the simulated clock meanwhile,
and what it would hand to a thread is done at once: a clock that jumps does not wait for threads.
"""

from __future__ import annotations

import importlib
import random
import secrets
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Final

import trio

from flowengine.kernels.load import registry as load_kernels

#: What trio calls the switch and the generator.
_SWITCH: Final = "_ALLOW_DETERMINISTIC_SCHEDULING"
_GENERATOR: Final = "_r"


def generator(seed: object, *names: object) -> random.Random:
    """A generator of its own for what these names name: one that is used more does not disturb another."""
    return random.Random(" ".join(map(str, (seed, *names))))


class _Secrets:
    """The part of `secrets` that the engine uses, from a generator."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def randbits(self, count: int) -> int:
        return self._chance.getrandbits(count)

    def token_bytes(self, count: int = 32) -> bytes:
        return self._chance.randbytes(count)

    def token_hex(self, count: int = 32) -> str:
        return self._chance.randbytes(count).hex()


class _Random:
    """The module `random`, whose generators without a seed get one."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def Random(self, seed: Any = None) -> random.Random:
        return random.Random(self._chance.getrandbits(64) if seed is None else seed)

    def __getattr__(self, name: str) -> Any:
        return getattr(random, name)


class _Time:
    """The module `time`, whose clocks show simulated seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.time = self.monotonic = self.perf_counter = self.thread_time = clock

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


def _seconds() -> float:
    """Simulated seconds; nothing passes while Python computes."""
    return trio.current_time() if trio.lowlevel.in_trio_run() else 0.0


def _load() -> None:
    """Import what the engine would import when first used, so that nothing escapes being replaced."""
    load_kernels()
    for name in ("kernels.load", "cluster.remote", "cluster.server", "train", "transport.streams.inproc"):
        importlib.import_module(f"flowengine.{name}")


def _engine_modules() -> Iterator[ModuleType]:
    for name, module in list(sys.modules.items()):
        if name.startswith("flowengine.") and not name.startswith("flowengine.testing."):
            yield module


@contextmanager
def _replaced(chance: random.Random) -> Iterator[None]:
    """Put generators and clocks of the simulation where the engine's modules have those of the machine."""
    substitutes: list[tuple[object, object]] = [
        (secrets, _Secrets(chance)),
        (random, _Random(chance)),
        (time, _Time(_seconds)),
        (time.perf_counter, _seconds),
        (time.thread_time, _seconds),
        (time.monotonic, _seconds),
        (time.time, _seconds),
    ]
    changed: list[tuple[dict[str, Any], str, object]] = []
    try:
        for module in _engine_modules():
            names = vars(module)
            for name, value in list(names.items()):
                for original, substitute in substitutes:
                    if value is original:
                        names[name] = substitute
                        changed.append((names, name, original))
        yield
    finally:
        for names, name, original in changed:
            names[name] = original


@contextmanager
def _scheduled(chance: random.Random) -> Iterator[None]:
    """Have trio order its tasks as the seed says."""
    internals = vars(importlib.import_module("trio._core._run"))
    if _SWITCH not in internals or not isinstance(internals.get(_GENERATOR), random.Random):
        raise RuntimeError(
            f"trio {trio.__version__} has no {_SWITCH} and {_GENERATOR} any more: say in {__name__} how its "
            "scheduler is made deterministic now"
        )
    source: random.Random = internals[_GENERATOR]
    switch, state = internals[_SWITCH], source.getstate()
    internals[_SWITCH] = True
    source.seed(chance.getrandbits(64))
    try:
        yield
    finally:
        internals[_SWITCH] = switch
        source.setstate(state)


async def _inline(work: Callable[..., Any], *args: Any, **options: Any) -> Any:
    """In the place of `trio.to_thread.run_sync`."""
    await trio.lowlevel.checkpoint()
    return work(*args)


@contextmanager
def _without_threads() -> Iterator[None]:
    names: list[tuple[Any, str, object]] = [
        (trio.to_thread, "run_sync", _inline),
        (trio.from_thread, "check_cancelled", lambda: None),
    ]
    originals = [getattr(module, name) for module, name, _ in names]
    for module, name, substitute in names:
        setattr(module, name, substitute)
    try:
        yield
    finally:
        for (module, name, _), original in zip(names, originals, strict=True):
            setattr(module, name, original)


@contextmanager
def seeded(seed: object) -> Iterator[None]:
    """Everything that this thread's trio run and the engine leave to chance follows from `seed` meanwhile."""
    _load()
    with _replaced(generator(seed, "engine")), _scheduled(generator(seed, "tasks")), _without_threads():
        yield


__all__ = ["generator", "seeded"]
