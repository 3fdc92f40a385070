"""The list of attacks on a sandbox, and the test that makes each: none without a test, none said twice.

What is tried system call by system call is in `confined.py`, by name; ops that read and write files are in
`tests/kernels/test_file_access.py`, where a test finds those that are missing.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

import pytest

from tests.kernels.test_file_access import READING, WRITING
from tests.limits.attacks import ATTACKS

_HERE: Final = Path(__file__).parent

#: {"file::test": attacks, each in words}
_LIST: Final[dict[str, tuple[str, ...]]] = {
    "test_attacks.py::test_no_op_reads_a_file_outside_the_roots": (
        "each op that reads a file names one outside the roots",
        "an op that reads follows a link out of a root",
        "an op that reads goes through a linked folder",
    ),
    "test_attacks.py::test_no_op_writes_a_file_outside_the_roots": (
        "each op that writes a file names one outside the roots",
        "an op that writes follows a link out of a root",
        "an op that writes goes up by '..'",
    ),
    "test_attacks.py::test_files_within_the_roots_are_read_and_written": (
        "a file larger than may be written",
    ),
    "test_attacks.py::test_graphs_that_ask_for_too_much_are_stopped": (
        "a constant of gigabytes that is stored small (constant)",
        "a string doubled forty times (doubled)",
        "a tensor of absurd size (filled)",
        "padding of absurd width (padded)",
        "a bomb of compressed bytes (decompressed)",
        "indices of everything that is true (found)",
        "a file without end (endless_file)",
        "lists of tensors that grow (arrays)",
        "a queue without bound (queue)",
        "a loop without end (endless_loop)",
        "a pattern that backtracks (pattern)",
        "batches without end (batches)",
        "work for the pass that folds constants (folded)",
        "products without end (products)",
        "a window of 2^31 (window)",
    ),
    "test_attacks.py::test_names_cannot_move_a_cursor": ("names and texts that move the terminal's cursor",),
    "test_strangers.py::test_what_is_no_regular_file_is_neither_read_nor_waited_for": (
        "a pipe that nobody writes",
        "a device behind a link",
        "the terminal behind a link",
        "the environment by /proc",
        "its own memory by /proc",
        "a link to itself",
        "a socket in a folder",
        "a path up through a link",
        "a path with a zero byte",
    ),
    "test_strangers.py::test_a_folder_that_is_exchanged_for_a_link_leads_nowhere_else": (
        "a race: a folder is exchanged for a link while it is opened",
    ),
    "test_strangers.py::test_text_that_looks_like_code_stays_text": (
        "a constant that is Python",
        "a message that is Python",
        "a replacement that refers to a group and to Python",
        "a template with attributes of objects",
        "bytes that are a pickle",
        "a tensor to be parsed that is none",
        "fetches that are code, absurd numbers and control characters",
    ),
    "test_strangers.py::test_python_and_what_others_hold_cannot_be_named": (
        "functions of the program by guessed names",
        "tensors of other sessions by guessed handles",
        "tensors of other sessions, dropped",
        "a variable of another session",
    ),
    "test_strangers.py::test_what_doubles_ends_at_the_bound": (
        "numbers doubled forty times",
        "a tensor repeated 2^31 times",
        "a range of 2^40",
        "numbers doubled in a loop",
    ),
    "test_strangers.py::test_functions_that_never_come_back_are_ended": (
        "a function that calls itself",
        "a function that calls itself twice",
        "a functional loop without end",
        "a functional loop of 2^31 rounds",
    ),
    "test_strangers.py::test_whole_sessions_of_an_ordinary_user": ("files and memory, as an ordinary user",),
    "test_allowed_ops.py::test_each_kind_of_refusal_names_the_node": (
        "Python by its op",
        "a file behind an attribute that usually names a stream",
        "files by a function of the graph",
        "files by a function that a dataset calls",
        "files by a graph that lies in a string",
    ),
    "test_allowed_ops.py::test_ops_of_a_module_are_on_the_list_unless_they_say_that_they_reach_out": (
        "an op that connects",
        "an op that reads the environment",
    ),
    "test_bounds.py::test_what_is_fed_counts_and_what_fits_is_run": (
        "large feeds and a chain of large results",
    ),
    "test_bounds.py::test_errors_keep_no_memory": ("errors that keep what was fed",),
    "test_bounds.py::test_memory_of_kernels_is_refused_to_them_before_the_process_ends": (
        "kernels that need much more memory than their results",
    ),
    "test_sessions.py::test_a_process_that_dies_again_and_again_ends_the_session": ("dying again and again",),
    "test_sessions.py::test_a_step_ends_at_its_deadline_and_the_next_one_runs": ("a step that never ends",),
    "test_models.py::test_signatures_that_make_no_sense": ("signatures that make no sense",),
    "test_hostile.py::test_a_process_that_never_gets_ready": (
        "a process that ends before it is ready",
        "a first word that is nonsense",
        "a first word nested deeply",
        "a first word of wrong types",
        "a first word with noise behind it",
        "a process that is ready and gone",
    ),
    "test_hostile.py::test_answers_that_make_no_sense_end_the_process": (
        "a process that ends while it reads the graph",
        "meanings that are nonsense",
        "meanings of other tensors",
        "a dtype that is Python",
        "positions of values that are none",
        "a shape with negative sizes",
        "a value too few",
        "a value of another dtype",
        "more values than were asked for",
        "strings for numbers",
    ),
    "test_hostile.py::test_a_flood_is_not_taken": ("an answer larger than may be", "noise on the socket"),
    "test_hostile.py::test_memory_that_may_not_be_asked_for_is_refused": ("memory asked for at once",),
    "test_hostile.py::test_memory_that_no_account_knows_of_ends_the_process": ("memory bit by bit",),
    "test_hostile.py::test_threads_without_end_end_the_process": (
        "threads without end",
        "threads without end, by no library",
    ),
    "test_hostile.py::test_a_step_that_never_answers_ends_with_its_process": (
        "a process that sleeps and never answers",
        "a process that computes and never answers",
    ),
    "test_hostile.py::test_a_reset_that_never_answers_ends_with_its_process": (
        "a reset that never answers",
        "a process that ends while it is reset",
    ),
    "test_hostile.py::test_a_reset_that_its_session_overtakes_is_cancelled": (
        "a reset that never answers, and its session closes",
    ),
    "test_hostile.py::test_texts_of_errors_are_bounded_and_can_be_shown": ("an error of megabytes",),
    "test_hostile.py::test_memory_that_is_none_ends_the_process": (
        "places outside of the shared memory",
        "places that overlap",
        "places given back that were not given",
    ),
    "test_hostile.py::test_memory_that_changes_while_it_is_read_harms_nobody": (
        "shared memory that is made shorter",
        "shared memory that changes while it is read",
    ),
    "test_hostile.py::test_memory_that_is_filled_counts": ("shared memory that is filled",),
}


def _defined(path: Path) -> set[str]:
    tree = ast.parse(path.read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


@pytest.mark.parametrize("test", _LIST)
def test_each_attack_has_a_test(test: str) -> None:
    file, _, name = test.partition("::")
    assert name in _defined(_HERE / file)


def test_no_attack_is_said_twice_and_there_are_many() -> None:
    attacks = [each for several in _LIST.values() for each in several]
    assert len(set(attacks)) == len(attacks)
    assert len(attacks) >= 60
    # Each of these is tried in every way that leads out of a root.
    assert len(READING) + len(WRITING) >= 50


def test_what_asks_for_too_much_is_listed() -> None:
    said = _LIST["test_attacks.py::test_graphs_that_ask_for_too_much_are_stopped"]
    assert {each.rpartition("(")[2].rstrip(")") for each in said} == ATTACKS.keys()


def test_every_test_of_hostile_processes_and_strangers_is_listed() -> None:
    for file in ("test_attacks.py", "test_strangers.py", "test_hostile.py"):
        tests = {f"{file}::{each}" for each in _defined(_HERE / file) if each.startswith("test_")}
        assert tests <= _LIST.keys()
