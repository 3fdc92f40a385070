"""The learned times of a request's plans: one object, which can be reset, written and replayed.

How a hot plan is cut, what runs on a thread and when a plan is compiled depend on what steps took. All of
that is here and nowhere else: two plans of one request that replay the same record take the same form,
whatever ran before in the process.

    record = tiers.learned.record()      # plain dictionaries, lists and numbers
    other.replay(record)                 # another session's plan of the same request
    other.form() == tiers.form()

Policies, such as how many runs make a plan hot, are in `tiers.py` and `lanes`: this knows only numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

#: What was learned, as numbers, strings, lists and dictionaries.
Record: TypeAlias = dict[str, Any]

#: Microseconds from which what a kernel of small inputs takes matters to where regions are cut.
_WORTH_NOTING: Final = 50.0
#: Estimates below this many microseconds say little of larger ones.
_WORTH_LEARNING: Final = 50.0
#: A kernel that takes still longer than was estimated was kept waiting by others.
_PACE_MAX: Final = 4.0
#: A region that takes longer than a slice of the event loop should have been smaller.
SLOW_REGION_SECONDS: Final = 0.002
#: It is one if it has been so as often as this without a run that was not: a step's thread may be interrupted
#: a few times.
SLOW_RUNS: Final = 3
#: What the fastest run of a region took that has not run.
NEVER_RAN: Final = float("inf")


class ItemTimes:
    """The learned times of one item.

    inline_bytes     inputs up to this many bytes are computed inline; of larger ones the cost is estimated
    pace             what its kernel was measured to take, to what was estimated
    microseconds     what it took when it was last measured; 0 for what was never large
    was_heavy        whether it has run on a worker thread: such a node stays out of regions
    is_guess         whether it was measured once only, when it may have had to prepare something
    fastest_seconds  of a region: what it took at least, lately
    slow_runs        of a region: how often it has just been slow, one run after another
    """

    __slots__ = (
        "_before",
        "_estimate",
        "_first_bytes",
        "fastest_seconds",
        "inline_bytes",
        "is_guess",
        "microseconds",
        "pace",
        "slow_runs",
        "was_heavy",
    )

    def __init__(self, inline_bytes: int) -> None:
        self._first_bytes = inline_bytes
        self.reset()

    def reset(self) -> None:
        """Forget all."""
        self.inline_bytes = self._first_bytes
        self.pace = 1.0
        self.microseconds = 0.0
        self.was_heavy = False
        self.is_guess = False
        self.fastest_seconds = NEVER_RAN
        self.slow_runs = 0
        #: Microseconds that it took the time before, of small inputs.
        self._before = NEVER_RAN
        #: What it was estimated to take when it was last measured, by its inputs alone.
        self._estimate = 0.0

    def learn(self, estimate: float, took: float, pace: float) -> None:
        """Correct the pace by a kernel that took so many microseconds, estimated at a pace that may since
        have been corrected by others of its kind.

        The least is believed, which says what the kernel itself takes on a machine that does other things
        as well; but not for ever.
        """
        self.is_guess = not self.microseconds
        alone = estimate / pace
        # Of inputs like the last ones the same is true; of others nothing is known yet.
        self.microseconds = min(took, 1.1 * self.microseconds) if alone == self._estimate else took
        self._estimate = alone
        if estimate > _WORTH_LEARNING:
            ratio = min(pace * took / estimate, _PACE_MAX)
            self.pace = ratio if self.pace == 1.0 else min(ratio, self.pace * 1.1)

    def saw(self, took: float) -> None:
        """Note what a kernel took whose inputs are small; the least is believed, and little is not noted.

        Nor is what it took once and not the time before: it may have been interrupted.
        """
        if self.microseconds:
            self.microseconds = min(self.microseconds, took)
            self.is_guess = False
            return
        if took > _WORTH_NOTING and self._before > _WORTH_NOTING:
            self.microseconds = min(took, self._before)
            self.is_guess = self._before == NEVER_RAN
        self._before = took

    def took_on_thread(self, seconds: float) -> None:
        """Note what a region took on a thread, where others compete for the cores."""
        self.fastest_seconds = min(seconds, 1.1 * self.fastest_seconds)

    def inherit(self, other: ItemTimes) -> None:
        """Take over what was learned of the same node in another form of the plan."""
        self.microseconds, self.pace, self.was_heavy = other.microseconds, other.pace, other.was_heavy
        self._estimate = other._estimate

    def record(self) -> list[Any] | None:
        """The numbers; None where nothing was learned."""
        fastest = None if self.fastest_seconds == NEVER_RAN else self.fastest_seconds
        times = [self.pace, self.microseconds, self._estimate]
        numbers = [self.inline_bytes, *times, self.was_heavy, self.is_guess, fastest]
        return None if numbers == [self._first_bytes, 1.0, 0.0, 0.0, False, False, None] else numbers

    def replay(self, numbers: list[Any]) -> None:
        """Know what `record` gave, and nothing else."""
        self.inline_bytes, *times, self.was_heavy, self.is_guess, fastest = numbers
        self.pace, self.microseconds, self._estimate = times
        self.fastest_seconds = NEVER_RAN if fastest is None else fastest
        self._before = NEVER_RAN
        self.slow_runs = 0


#: So many steps of a plan run elsewhere at most before one is tried in place again.
_SKIPPED_MAX: Final = 255
#: A step that takes longer runs elsewhere. To cross to the portal's thread and back costs 0.5 ms beside a
#: step of 2 ms (its code is in no cache by then): a thirtieth of this.
STAY_SECONDS: Final = 0.016


class PlanTimes:
    """The learned times of one form of a plan.

    items            {name: what was learned of an item}, of all that may take time
    slow_regions     how often a region without a loop took longer than a slice: it should have been smaller
    slow_iterations  how often one iteration of a region's loop held the host for long: it has a node worth
                     a thread
    items_per_clock  after how many items the clock is looked at, where they were seen to be slow; else 0
    """

    __slots__ = ("items", "items_per_clock", "slow_iterations", "slow_regions")

    def __init__(self, items: Mapping[str, ItemTimes]) -> None:
        self.items = dict(items)
        self.slow_regions = 0
        self.slow_iterations = 0
        self.items_per_clock = 0

    def region_took(self, times: ItemTimes, seconds: float) -> None:
        """Note what a region without a loop took on the event loop's thread.

        It is slow only if it is so each time: else it was the machine that did something else meanwhile.
        """
        if seconds < times.fastest_seconds:
            times.fastest_seconds = seconds
        if seconds > SLOW_REGION_SECONDS:
            times.slow_runs += 1
            self.slow_regions += times.slow_runs >= SLOW_RUNS
            times.fastest_seconds *= 1.5
        elif times.slow_runs:
            times.slow_runs = 0

    def reset(self) -> None:
        """Forget all."""
        self.slow_regions = self.slow_iterations = self.items_per_clock = 0
        for times in self.items.values():
            times.reset()

    def record(self) -> Record:
        return {
            "slow_regions": self.slow_regions,
            "slow_iterations": self.slow_iterations,
            "items_per_clock": self.items_per_clock,
            "items": {n: numbers for n, times in self.items.items() if (numbers := times.record())},
        }

    def replay(self, record: Record) -> None:
        """Know what `record` gave, and nothing else."""
        self.reset()
        self.slow_regions, self.slow_iterations = record["slow_regions"], record["slow_iterations"]
        self.items_per_clock = record["items_per_clock"]
        for name, numbers in record["items"].items():
            if name in self.items:
                self.items[name].replay(numbers)


class InPlaceTimes:
    """How steps of a plan did that ran in place: see `runtime/in_place`.

    A plan of which two steps in a row did not end there in time (one may be the machine's fault) runs the
    next ones elsewhere: 1, then 3, 7 and so on.
    """

    __slots__ = ("_has_missed", "_left", "_skipped")

    def __init__(self) -> None:
        self._skipped = self._left = 0
        self._has_missed = False

    def may_try(self) -> bool:
        """Whether the next step may run in place."""
        if self._left:
            self._left -= 1
            return False
        return True

    def note(self, *, fits: bool) -> None:
        """Note whether a step ended in place, each slice in time."""
        if fits:
            self._skipped //= 2
        elif self._has_missed:
            self._skipped = min(2 * self._skipped + 1, _SKIPPED_MAX)
            self._left = self._skipped
        self._has_missed = not fits

    def expect(self, microseconds: float) -> None:
        """Take what was learned elsewhere for a guess: a plan of long steps does not begin with a try."""
        if microseconds > 1e6 * STAY_SECONDS:
            self._skipped = self._left = _SKIPPED_MAX


class RequestTimings:
    """The learned times of a request.

    runs, seconds   of interpreted steps since the plan was last begun with, and what they took
    fed_bytes       the most that one of them was given
    members_max     how many members a region may have
    looks_left      how often an iteration that takes long may yet send the plan back to the interpreter
    is_settled      whether the compiled form was made, or is being made
    interpreted     what its items took
    compiled        the same of the compiled form, where there is one
    """

    __slots__ = (
        "_first",
        "compiled",
        "fed_bytes",
        "interpreted",
        "is_settled",
        "looks_left",
        "members_max",
        "runs",
        "seconds",
    )

    def __init__(self, members_max: int, looks_left: int) -> None:
        self._first = (members_max, looks_left)
        self.interpreted = PlanTimes({})
        self.compiled: PlanTimes | None = None
        self.reset()

    def reset(self) -> None:
        """Forget all: the plan is as it was made."""
        self.members_max, self.looks_left = self._first
        self.fed_bytes = 0
        self.begin_again()
        self.interpreted.reset()

    def begin_again(self) -> None:
        """The interpreter learns again, until the plan is hot again."""
        self.runs = 0
        self.seconds = 0.0
        self.is_settled = False
        self.compiled = None

    def record(self) -> Record:
        """All of it, to be kept or sent."""
        return {
            "runs": self.runs,
            "seconds": self.seconds,
            "fed_bytes": self.fed_bytes,
            "members_max": self.members_max,
            "looks_left": self.looks_left,
            "is_settled": self.is_settled,
            "interpreted": self.interpreted.record(),
            "compiled": None if self.compiled is None else self.compiled.record(),
        }

    def replay(self, record: Record) -> None:
        """Know what `record` gave of the interpreted plan, and nothing else. Who compiles does the rest."""
        self.begin_again()
        self.runs, self.seconds = record["runs"], record["seconds"]
        self.fed_bytes = record["fed_bytes"]
        self.members_max, self.looks_left = record["members_max"], record["looks_left"]
        self.interpreted.replay(record["interpreted"])


__all__ = [
    "NEVER_RAN",
    "SLOW_REGION_SECONDS",
    "InPlaceTimes",
    "ItemTimes",
    "PlanTimes",
    "Record",
    "RequestTimings",
]
