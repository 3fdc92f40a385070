"""The search against every possible placement of small problems, and against rules on larger ones."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.passes.place.lists import ListScheduler, all_on, by_executor, by_rank, packed, round_robin
from flowengine.passes.place.problem import Problem
from flowengine.passes.place.search import SIMULATIONS_MAX, search
from flowengine.passes.place.simulate import simulate

Reporter = Callable[[str, object], None]


def draw_problem(rng: random.Random, groups_max: int = 9, devices_max: int = 3) -> Problem:
    """Operations of uneven cost in groups, at random on devices of uneven speed; some are constrained."""
    groups = rng.randint(2, groups_max)
    count = rng.randint(groups, 2 * groups)
    devices = rng.randint(2, devices_max)
    group_of = list(range(groups)) + [rng.randrange(groups) for _ in range(count - groups)]
    rng.shuffle(group_of)
    speeds = [rng.choice([0.5, 1.0, 1.0, 2.0]) for _ in range(devices)]
    work = [rng.lognormvariate(3, 1) for _ in range(count)]
    density = rng.uniform(0.1, 0.6)
    latency = rng.choice([1.0, 10.0, 40.0])
    per_byte = 1 / rng.choice([10, 100, 1000])
    return Problem(
        costs=[tuple(each / speed for speed in speeds) for each in work],
        edges=[
            [(b, 1.0, rng.lognormvariate(5, 2)) for b in range(a + 1, count) if rng.random() < density]
            for a in range(count)
        ],
        group_of=group_of,
        allowed=[
            tuple(sorted(rng.sample(range(devices), rng.randint(1, devices))))
            if rng.random() < 0.2
            else tuple(range(devices))
            for _ in range(groups)
        ],
        latency=[[0.0 if a == b else latency for b in range(devices)] for a in range(devices)],
        per_byte=[[0.0 if a == b else per_byte for b in range(devices)] for a in range(devices)],
    )


def brute_force(problem: Problem) -> tuple[float, list[int]]:
    """The least makespan of all placements, and one that has it.

    A simulation of its own: all placements at once, an operation a turn, always the one that can start first.
    """
    every = np.array(list(itertools.product(*problem.allowed)))
    places = every[:, problem.group_of]
    rows = np.arange(len(places))
    count = len(problem.costs)
    costs = np.array(problem.costs)[np.arange(count), places]
    latency, per_byte = np.array(problem.latency), np.array(problem.per_byte)
    size, joined = np.zeros((count, count)), np.zeros((count, count), bool)
    for producer, out in enumerate(problem.edges):
        for consumer, _, moved in out:
            size[producer, consumer], joined[producer, consumer] = moved, True
    waiting = np.tile(joined.sum(0), (len(places), 1))
    arrival: Any = np.zeros(places.shape)
    free = np.zeros((len(places), problem.devices))
    done = np.zeros(places.shape, bool)
    end: Any = np.zeros(len(places))
    for _ in range(count):
        start = np.maximum(arrival, np.take_along_axis(free, places, 1))
        op = np.where(done | (waiting > 0), np.inf, start).argmin(1)
        time = start[rows, op] + costs[rows, op]
        device = places[rows, op]
        free[rows, device], done[rows, op] = time, True
        end = np.maximum(end, time)
        away = time[:, None] + latency[device[:, None], places] + size[op] * per_byte[device[:, None], places]
        arrival = np.where(joined[op], np.maximum(arrival, away), arrival)
        waiting = waiting - joined[op]
    best = int(end.argmin())
    return float(end[best]), [int(place) for place in every[best]]


def rate_against_brute_force(seeds: Sequence[int]) -> list[float]:
    ratios = []
    for seed in seeds:
        problem = draw_problem(random.Random(seed))
        least, places = brute_force(problem)
        assert simulate(problem, places).makespan == pytest.approx(least)
        found = search(problem)
        assert found is not None
        assert found.makespan == simulate(problem, found.places).makespan
        ratios.append(found.makespan / least)
    return ratios


def report_ratios(ratios: Sequence[float], record_property: Reporter) -> None:
    within = sum(ratio <= 1.3 for ratio in ratios)
    record_property("problems", len(ratios))
    record_property("within 1.3 of the optimum", within)
    record_property("worst ratio", max(ratios))
    assert min(ratios) >= 1 - 1e-9
    assert within >= 0.95 * len(ratios), f"{within} of {len(ratios)} are within 1.3 of the optimum"


def test_small_problems_come_near_the_optimum(record_property: Reporter) -> None:
    report_ratios(rate_against_brute_force(range(60)), record_property)


@pytest.mark.nightly
def test_many_small_problems_come_near_the_optimum(record_property: Reporter) -> None:
    report_ratios(rate_against_brute_force(range(1000, 3000)), record_property)


def draw_layers(rng: random.Random, count: int, devices: int) -> Problem:
    """A larger problem: each operation needs a few of those shortly before it."""
    work = [rng.lognormvariate(2, 1.5) for _ in range(count)]
    edges: list[list[tuple[int, float, float]]] = [[] for _ in range(count)]
    for op in range(1, count):
        for producer in {max(0, op - rng.randint(1, 12)) for _ in range(rng.randint(1, 3))}:
            edges[producer].append((op, 1.0, rng.lognormvariate(4, 2)))
    return Problem(
        costs=[(each,) * devices for each in work],
        edges=edges,
        group_of=[op if rng.random() < 0.8 else max(0, op - 20) for op in range(count)],
        allowed=[tuple(range(devices))] * count,
        latency=[[0.0 if a == b else 15.0 for b in range(devices)] for a in range(devices)],
        per_byte=[[0.0 if a == b else 1e-4 for b in range(devices)] for a in range(devices)],
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_result_is_never_much_worse_than_a_rule(seed: int) -> None:
    problem = draw_layers(random.Random(seed), 300, 4)
    found = search(problem)
    assert found is not None
    rules = [all_on(problem, device) for device in range(4)] + [round_robin(problem)]
    assert found.makespan <= 1.05 * min(simulate(problem, places).makespan for places in rules)


def test_the_same_problem_has_the_same_placement() -> None:
    problem = draw_layers(random.Random(0), 200, 3)
    first, second = search(problem), search(problem)
    assert first is not None
    assert second is not None
    assert first.places == second.places


@given(st.integers(0, 2**32))
def test_a_schedule_keeps_its_rules(seed: int) -> None:
    """No operation before its inputs are there, and none beside another one of its device."""
    problem = draw_problem(random.Random(seed), groups_max=8)
    rng = random.Random(seed + 1)
    places = [rng.choice(allowed) for allowed in problem.allowed]
    schedule = simulate(problem, places)
    where = [places[group] for group in problem.group_of]
    start = [end - problem.costs[op][where[op]] for op, end in enumerate(schedule.finish)]
    for producer, out in enumerate(problem.edges):
        for consumer, crossings, size in out:
            a, b = where[producer], where[consumer]
            way = 0.0 if a == b else crossings * problem.latency[a][b] + size * problem.per_byte[a][b]
            assert start[consumer] >= schedule.finish[producer] + way - 1e-6
    for device in range(problem.devices):
        ran = sorted((start[op], schedule.finish[op]) for op in range(len(start)) if where[op] == device)
        assert all(a[1] <= b[0] + 1e-6 for a, b in itertools.pairwise(ran))
    assert schedule.makespan == max(schedule.finish)
    path = schedule.critical_path()
    assert schedule.finish[path[0]] == schedule.makespan
    assert start[path[-1]] == pytest.approx(0.0, abs=1e-6)


@given(st.integers(0, 2**32))
def test_list_orders_respect_the_edges(seed: int) -> None:
    problem = draw_problem(random.Random(seed))
    for order in (by_rank(problem), by_executor(problem)):
        position = {op: index for index, op in enumerate(order)}
        assert len(position) == len(problem.costs)
        assert all(
            position[producer] < position[consumer]
            for producer, out in enumerate(problem.edges)
            for consumer, _, _ in out
        )


@given(st.integers(0, 2**32))
def test_what_a_list_expects_of_one_order_is_what_comes_of_it(seed: int) -> None:
    """Of a chain in which each operation is a group the list knows when each ends, wherever it goes."""
    rng = random.Random(seed)
    drawn = draw_problem(rng, groups_max=6)
    count = len(drawn.costs)
    problem = replace(
        drawn,
        edges=[[(op + 1, 1.0, rng.uniform(0.0, 1e4))] if op + 1 < count else [] for op in range(count)],
        group_of=list(range(count)),
        allowed=[drawn.allowed[group] for group in drawn.group_of],
        costs=[tuple(10.0 + each for each in costs) for costs in drawn.costs],
        resident=[],
    )
    scheduler = ListScheduler(problem, problem.incoming())
    places = scheduler.run(list(range(count)))
    schedule = simulate(problem, places)
    for op, (device, ends) in scheduler.chosen.items():
        assert device == places[op]
        assert ends[device] == pytest.approx(schedule.finish[op])


def test_a_list_expects_a_device_to_be_free_when_all_before_has_ended() -> None:
    """Two operations of one device that wait for nothing; a third waits behind both, or goes elsewhere."""
    for second, want in ((5.0, 0), (50.0, 1)):
        problem = Problem(
            costs=[(10.0, 10.0), (second, second), (4.0, 20.0)],
            edges=[[], [], []],
            group_of=[0, 1, 2],
            allowed=[(0,), (0,), (0, 1)],
            latency=[[0.0, 1.0], [1.0, 0.0]],
            per_byte=[[0.0, 0.0], [0.0, 0.0]],
        )
        scheduler = ListScheduler(problem, problem.incoming())
        assert scheduler.run([0, 1, 2])[2] == want
        assert scheduler.chosen[2][1] == {0: 10.0 + second + 4.0, 1: 20.0}


@given(st.integers(0, 2**32))
def test_every_group_is_where_it_may_be_and_fits(seed: int) -> None:
    rng = random.Random(seed)
    problem = draw_problem(rng)
    problem.resident = [rng.choice([0, 1, 5]) for _ in problem.allowed]
    problem.limits = [rng.choice([None, 20]) for _ in range(problem.devices)]
    found = search(problem)
    if found is not None:
        assert all(place in allowed for place, allowed in zip(found.places, problem.allowed, strict=True))
        assert problem.fits(found.places)


@given(st.integers(0, 2**32), st.data())
def test_the_largest_go_first_to_where_most_room_is(seed: int, data: st.DataObject) -> None:
    """So what is over at the end, where anything is, is as small as what comes last."""
    problem = draw_problem(random.Random(seed))
    groups = len(problem.allowed)
    kept = data.draw(st.lists(st.integers(0, 9), min_size=groups, max_size=groups))
    limits = data.draw(st.lists(st.integers(5, 40), min_size=problem.devices, max_size=problem.devices))
    problem = replace(problem, resident=kept, limits=[*limits])
    places = packed(problem)
    room = [float(limit) for limit in limits]
    for group in sorted(range(groups), key=lambda each: (-kept[each], each)):
        assert places[group] in problem.allowed[group]
        assert room[places[group]] == max(room[device] for device in problem.allowed[group])
        room[places[group]] -= kept[group]


@given(st.integers(0, 2**32))
def test_the_best_device_alone_is_what_a_search_is_compared_with(seed: int) -> None:
    problem = draw_problem(random.Random(seed))
    found = search(problem)
    assert found is not None
    alone = [simulate(problem, all_on(problem, device)).makespan for device in range(problem.devices)]
    assert found.baselines["one device"] == min(alone)
    assert found.makespan <= min(alone) + 1e-9 or found.origin == "one device"


def test_work_that_gains_little_from_spreading_stays_together() -> None:
    """Two chains side by side that end together: spread if they are long, not if transfers eat the gain."""
    for work, spread in ((1000.0, True), (10.0, False)):
        problem = Problem(
            costs=[(work, work)] * 5,
            edges=[[(1, 1.0, 0.0)], [(4, 1.0, 0.0)], [(3, 1.0, 0.0)], [(4, 1.0, 0.0)], []],
            group_of=[0, 1, 2, 3, 4],
            allowed=[(0, 1)] * 5,
            latency=[[0.0, 18.0], [18.0, 0.0]],
            per_byte=[[0.0, 0.0], [0.0, 0.0]],
        )
        found = search(problem)
        assert found is not None
        assert (len(set(found.places)) == 2) == spread


@pytest.mark.parametrize(("first", "spread"), [(45.0, True), (46.0, False)])
def test_a_gain_of_just_a_tenth_is_worth_spreading(first: float, spread: bool) -> None:
    """A chain and work beside it, 100 us on one device; in turn the chain is cut and takes longer."""
    problem = Problem(
        costs=[(first, first), (45.0, 45.0), (55.0 - first, 55.0 - first)],
        edges=[[(1, 1.0, 0.0)], [], []],
        group_of=[0, 1, 2],
        allowed=[(0, 1)] * 3,
        latency=[[0.0, 30.0], [30.0, 0.0]],
        per_byte=[[0.0, 0.0], [0.0, 0.0]],
    )
    found = search(problem)
    assert found is not None
    assert found.makespan == (90.0 if spread else 100.0)
    assert (len(set(found.places)) == 2) == spread


@pytest.mark.parametrize("effort", [0.01, 0.1])
def test_a_small_problem_is_given_no_more_simulations_than_any(effort: float) -> None:
    """A descent ends with the move that it is at: a few more than the share of the most."""
    found = search(draw_problem(random.Random(5)), effort=effort)
    assert found is not None
    assert found.simulations <= effort * SIMULATIONS_MAX + 20


def test_what_is_pinned_does_not_make_of_two_devices_one() -> None:
    """A chain whose first operation is pinned to device 0: all "on device 1" is on two, ends 4% sooner."""
    problem = Problem(
        costs=[(100.0, 100.0), (100.0, 90.0), (100.0, 90.0)],
        edges=[[(1, 1.0, 0.0)], [(2, 1.0, 0.0)], []],
        group_of=[0, 1, 2],
        allowed=[(0,), (0, 1), (0, 1)],
        latency=[[0.0, 8.0], [8.0, 0.0]],
        per_byte=[[0.0, 0.0], [0.0, 0.0]],
    )
    found = search(problem)
    assert found is not None
    assert found.places == [0, 0, 0]


def test_a_cycle_is_refused() -> None:
    problem = Problem(
        [(1.0,)] * 2, [[(1, 1.0, 0.0)], [(0, 1.0, 0.0)]], [0, 1], [(0,), (0,)], [[0.0]], [[0.0]]
    )
    with pytest.raises(ValueError, match="cycle"):
        problem.topological()


def test_nothing_to_place() -> None:
    empty = Problem([], [], [], [], [[0.0, 1.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]])
    found = search(empty)
    assert found is not None
    assert found.places == []
    assert not math.isnan(found.makespan)
