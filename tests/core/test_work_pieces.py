"""Work in pieces is done whole or in turns, by one or by several, and fails once."""

from __future__ import annotations

import pytest

from flowengine.core.work_pieces import Pieces, Piecework, at_once


def counted(log: list[int], count: int, fault: int | None = None) -> Pieces[str]:
    for number in range(count):
        log.append(number)
        if number == fault:
            raise ValueError(number)
        yield
    return "done"


def test_at_once() -> None:
    log: list[int] = []
    assert at_once(counted(log, 5)) == "done"
    assert log == [0, 1, 2, 3, 4]


def test_a_job_does_one_piece_at_least_and_goes_on_where_it_was_left() -> None:
    log: list[int] = []
    job = Piecework(counted(log, 3))
    for done in (1, 2, 3):
        assert not job.advance(0.0)
        assert len(log) == done
    assert job.advance(0.0)
    assert job.advance(0.0), "nothing is left to do, and nothing happens"
    assert job.result() == "done"
    assert not job.has_failed


def test_a_job_goes_on_until_its_time_is_over() -> None:
    log: list[int] = []
    job = Piecework(counted(log, 1000))
    assert job.advance(float("inf"))
    assert len(log) == 1000


def test_a_fault_is_told_once() -> None:
    log: list[int] = []
    job = Piecework(counted(log, 3, fault=1))
    assert not job.advance(0.0)
    with pytest.raises(ValueError, match="1"):
        job.advance(0.0)
    assert job.has_failed
    assert job.advance(0.0)
    assert log == [0, 1]


def test_a_job_is_given_up() -> None:
    log: list[int] = []
    job = Piecework(counted(log, 3))
    job.advance(0.0)
    job.give_up()
    assert job.advance(0.0)
    assert job.has_failed
    assert log == [0]
