"""Play scenarios by seed, and say how to play again what fails.

python -m tests.tools.scenarios --seeds 1000             # so many, from one that is drawn
python -m tests.tools.scenarios --seeds 0:1000
python -m tests.tools.scenarios --seed 7 --log seed-7.log
python -m tests.tools.scenarios --scenario asynchronous --workers 50 --seed 1
"""

from __future__ import annotations

import argparse
import gc
import resource
import secrets
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial

from flowengine.testing.simulation.outcomes import Failure
from tests.tools.scenarios.asynchronous import AsynchronousTraining, play_asynchronous
from tests.tools.scenarios.outcomes import ScenarioOutcome
from tests.tools.scenarios.synchronous import SynchronousTraining, play_synchronous
from tests.tools.scenarios.training import Training

SCENARIOS = ("synchronous", "asynchronous")


def _player(
    arguments: argparse.Namespace, scenario: str
) -> tuple[Callable[[int], ScenarioOutcome], list[str]]:
    """Return the function that plays a seed of a scenario, and the texts of its faults."""
    ps, workers, steps, faults = arguments.ps, arguments.workers, arguments.steps, arguments.faults
    if scenario == "synchronous":
        model = SynchronousTraining(Training(ps, workers), steps, arguments.save_every, faults)
        return partial(play_synchronous, scenario=model), _faults(arguments, model)
    other = AsynchronousTraining(ps, workers, min(steps, 60), faults)
    return partial(play_asynchronous, model=other), _faults(arguments, other)


def _faults(arguments: argparse.Namespace, model: SynchronousTraining | AsynchronousTraining) -> list[str]:
    return [] if arguments.seed is None else [str(fault) for fault in model.random_faults(arguments.seed)]


def _again(arguments: argparse.Namespace, scenario: str, seed: int) -> str:
    """The command that plays one seed again."""
    options = "".join(
        f" --{name.replace('_', '-')} {getattr(arguments, name)}"
        for name, default in _DEFAULTS.items()
        if getattr(arguments, name) != default
    )
    command = "python -m tests.tools.scenarios"
    return f"{command} --scenario {scenario}{options} --seed {seed} --log seed-{seed}.log"


def _seeds(text: str) -> range:
    first, colon, last = text.partition(":")
    if colon:
        return range(int(first), int(last))
    begin = secrets.randbelow(1_000_000_000)
    print(f"seeds {begin}:{begin + int(first)}", flush=True)
    return range(begin, begin + int(first))


#: A cluster that is over is one large cycle, and Python would let many of them pile up.
_COLLECT_EVERY = 10
_DEFAULTS = {"ps": 2, "workers": 3, "steps": 12, "save_every": 4, "faults": 4}


def _parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.tools.scenarios", description=__doc__)
    parser.add_argument("--scenario", choices=(*SCENARIOS, "all"), default="all")
    chosen = parser.add_mutually_exclusive_group()
    chosen.add_argument("--seed", type=int, help="play this one and print its faults")
    chosen.add_argument("--seeds", default="0:100", help="from:to, the last one left out; or how many")
    parser.add_argument("--log", help="write the log of events there; of one scenario and seed")
    for name, default in _DEFAULTS.items():
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=default)
    arguments = parser.parse_args(argv)
    if arguments.log and (arguments.seed is None or arguments.scenario == "all"):
        parser.error("--log takes one scenario and one seed")
    return arguments


def main(argv: Sequence[str] | None = None) -> int:
    """Play, and print what failed and how to see it again; 0 if nothing did."""
    arguments = _parse(argv)
    seeds = _seeds(arguments.seeds) if arguments.seed is None else [arguments.seed]
    scenarios = SCENARIOS if arguments.scenario == "all" else (arguments.scenario,)
    failed = played = 0
    begun = time.perf_counter()
    for scenario in scenarios:
        play, faults = _player(arguments, scenario)
        for text in faults:
            print(text)
        for seed in seeds:
            played += 1
            if not played % _COLLECT_EVERY:
                gc.collect()
            outcome: ScenarioOutcome | Exception
            try:
                outcome = play(seed)
            except Exception as error:  # whatever it is, it is this seed's
                failed += 1
                print(f"{scenario}, seed {seed}: {type(error).__name__}: {error}")
                print(f"    again: {_again(arguments, scenario, seed)}", flush=True)
                outcome = error
            if arguments.seed is not None:
                _show(outcome, arguments.log)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{played} played, {failed} failed, {time.perf_counter() - begun:.1f} s, {memory:.0f} MB")
    return int(failed > 0)


def _show(outcome: ScenarioOutcome | Exception, path: str | None) -> None:
    log = outcome.log if isinstance(outcome, ScenarioOutcome | Failure) else None
    if isinstance(outcome, ScenarioOutcome):
        print(f"{outcome.seconds:.6f} simulated seconds, {outcome.restarts} restarts")
    if log is not None:
        print(f"{len(log)} events, digest {log.digest()}")
        if path:
            with open(path, "w", encoding="utf-8") as file:
                file.write(log.text())


if __name__ == "__main__":
    sys.exit(main())
