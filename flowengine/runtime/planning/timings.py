"""The learned times of a request's plans: one object, which can be reset, written and replayed.

The cuts of a hot plan, the work of threads and the time of compiling depend on measured times of steps. All
of them are here and nowhere else: two plans of one request that replay the same record take the same form,
whatever ran before in the process.

    record = tiers.learned.record()      # plain dictionaries, lists and numbers
    other.replay(record)                 # another session's plan of the same request
    other.form() == tiers.form()

Policies, such as the number of runs of a hot plan, are in `tiers.py` and `lanes`: this has only numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

#: A record as numbers, strings, lists and dictionaries.
Record: TypeAlias = dict[str, Any]

#: From so many microseconds on, the time of a kernel of small inputs matters to the cuts of regions.
_WORTH_NOTING: Final = 50.0
#: Estimates below this many microseconds say little of larger ones.
_WORTH_LEARNING: Final = 50.0
#: A kernel that takes still longer than estimated was delayed by others.
_PACE_MAX: Final = 4.0
#: A region that takes longer than a slice of the event loop should have been smaller.
SLOW_REGION_SECONDS: Final = 0.002
#: It counts after so many slow runs in a row: a step's thread may be interrupted a few times.
SLOW_RUNS: Final = 3
#: The fastest time of a region that has not run.
NEVER_RAN: Final = float("inf")


class ItemTimes:
    """The learned times of one item.

    inline_bytes     inputs up to this many bytes are computed inline; for larger ones the cost is estimated
    pace             the measured time of its kernel by the estimated one
    microseconds     its last measured time; 0 for inputs that were never large
    was_heavy        whether it has run on a worker thread: such a node stays out of regions
    is_guess         whether it was measured only once, when it may have had to prepare data
    fastest_seconds  of a region: its minimum time, lately
    slow_runs        of a region: the number of slow runs in a row
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
        #: The previous time, in microseconds, with small inputs.
        self._before = NEVER_RAN
        #: The estimate at the last measurement, from its inputs alone.
        self._estimate = 0.0

    def learn(self, estimate: float, took: float, pace: float) -> None:
        """Correct the pace by the microseconds of a kernel, estimated at a pace that others may have changed.

        The minimum counts, which is the time of the kernel itself on a machine that also does other work; but
        not for ever.
        """
        self.is_guess = not self.microseconds
        alone = estimate / pace
        # It holds for inputs like the last ones; nothing is known yet of others.
        self.microseconds = min(took, 1.1 * self.microseconds) if alone == self._estimate else took
        self._estimate = alone
        if estimate > _WORTH_LEARNING:
            ratio = min(pace * took / estimate, _PACE_MAX)
            self.pace = ratio if self.pace == 1.0 else min(ratio, self.pace * 1.1)

    def saw(self, took: float) -> None:
        """Record the time of a kernel with small inputs; the minimum counts, and short times are not kept.

        Nor is a time that was long only once: the kernel may have been interrupted.
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
        """Record the time of a region on a thread, where others compete for the cores."""
        self.fastest_seconds = min(seconds, 1.1 * self.fastest_seconds)

    def inherit(self, other: ItemTimes) -> None:
        """Copy the learned times of the same node from another form of the plan."""
        self.microseconds, self.pace, self.was_heavy = other.microseconds, other.pace, other.was_heavy
        self._estimate = other._estimate

    def record(self) -> list[Any] | None:
        """Return the numbers; None if nothing was learned."""
        fastest = None if self.fastest_seconds == NEVER_RAN else self.fastest_seconds
        times = [self.pace, self.microseconds, self._estimate]
        numbers = [self.inline_bytes, *times, self.was_heavy, self.is_guess, fastest]
        return None if numbers == [self._first_bytes, 1.0, 0.0, 0.0, False, False, None] else numbers

    def replay(self, numbers: list[Any]) -> None:
        """Replace all numbers by those of `record`."""
        self.inline_bytes, *times, self.was_heavy, self.is_guess, fastest = numbers
        self.pace, self.microseconds, self._estimate = times
        self.fastest_seconds = NEVER_RAN if fastest is None else fastest
        self._before = NEVER_RAN
        self.slow_runs = 0


#: The maximum number of steps that run elsewhere before the next trial in place.
_SKIPPED_MAX: Final = 255
#: A step that takes longer runs elsewhere. The way to the portal's thread and back costs 0.5 ms beside a step
#: of 2 ms (its code is in no cache by then): a thirtieth of this.
STAY_SECONDS: Final = 0.016


class PlanTimes:
    """The learned times of one form of a plan.

    items            {name: the learned times of an item}, of all that may take time
    slow_regions     the number of times that a region without a loop took longer than a slice
    slow_iterations  the number of long iterations of a region's loop: it has a node worth a thread
    items_per_clock  the number of items between two readings of the clock, if they are slow; else 0
    """

    __slots__ = ("items", "items_per_clock", "slow_iterations", "slow_regions")

    def __init__(self, items: Mapping[str, ItemTimes]) -> None:
        self.items = dict(items)
        self.slow_regions = 0
        self.slow_iterations = 0
        self.items_per_clock = 0

    def region_took(self, times: ItemTimes, seconds: float) -> None:
        """Record the time of a region without a loop on the event loop's thread.

        It is slow only if it is so each time: otherwise the machine did other work meanwhile.
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
        """Replace all numbers by those of `record`."""
        self.reset()
        self.slow_regions, self.slow_iterations = record["slow_regions"], record["slow_iterations"]
        self.items_per_clock = record["items_per_clock"]
        for name, numbers in record["items"].items():
            if name in self.items:
                self.items[name].replay(numbers)


class InPlaceTimes:
    """The results of a plan's steps in place: see `runtime/in_place`.

    After two steps in a row that did not end there in time (one may be the machine's fault), the next ones
    run elsewhere: 1, then 3, 7 and so on.
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
        """Record whether a step ended in place, each slice in time."""
        if fits:
            self._skipped //= 2
        elif self._has_missed:
            self._skipped = min(2 * self._skipped + 1, _SKIPPED_MAX)
            self._left = self._skipped
        self._has_missed = not fits

    def expect(self, microseconds: float) -> None:
        """Use times learned elsewhere as a guess: a plan of long steps does not begin with a trial."""
        if microseconds > 1e6 * STAY_SECONDS:
            self._skipped = self._left = _SKIPPED_MAX


class RequestTimings:
    """The learned times of a request.

    runs, seconds   of interpreted steps since the plan was last reset, and their time
    fed_bytes       the most bytes that one of them was fed
    members_max     the maximum number of members of a region
    looks_left      the number of times that a long iteration may still send the plan back to the interpreter
    is_settled      whether the compiled form was made, or is being made
    interpreted     the times of its items
    compiled        the same of the compiled form, if there is one
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
        """Let the interpreter learn again, until the plan is hot again."""
        self.runs = 0
        self.seconds = 0.0
        self.is_settled = False
        self.compiled = None

    def record(self) -> Record:
        """Return all of it, to be kept or sent."""
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
        """Replace the times of the interpreted plan by those of `record`. The compiler does the rest."""
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
