"""Iterators and tables are begun and filled at each start of a run; where they are not, the hint is exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ir.proto import MetaGraphDef, VariableDef

Output = pytest.CaptureFixture[str]
ELEMENTS: dict[str, Any] = {"output_types": ["int64"], "output_shapes": [[]]}


def trains(*, makers: int = 1, wants: bool = False, with_table: bool = False) -> fe.Graph:
    """`sum` adds the next of 5, 6, 7 to the variable v, through the table where there is one (+ 100)."""
    g = fe.Graph()
    ops = g.ops
    first = g.placeholder("int64", [], name="first") if wants else np.int64(5)
    iterator = ops.IteratorV2(shared_name="", container="", name="it", **ELEMENTS)
    for number in range(makers):
        numbers = ops.RangeDataset(first, np.int64(8), np.int64(1), **ELEMENTS)
        ops.MakeIterator(numbers, iterator, name=f"make_{number}")
    ops.IteratorGetNext(iterator, name="next", **ELEMENTS)
    value = g.tensor("next:0")
    if with_table:
        table = ops.HashTableV2(key_dtype="int64", value_dtype="int64", name="table")
        keys = np.arange(5, 8)
        ops.InitializeTableV2(table, keys, keys + 100, name="fill")
        value = ops.LookupTableFindV2(table, value, np.int64(-1), name="found")
    v = ops.VariableV2(shape=[], dtype="int64", name="v")
    g.group(ops.Assign(v, np.int64(0)), name="init")
    ops.AssignAdd(v, value, name="sum")
    return g


def meta(graph: fe.Graph, path: Path, **collections: list[str]) -> str:
    found = MetaGraphDef(graph_def=graph.to_graph_def())
    for key, names in collections.items():
        found.collection_def[key].node_list.value.extend(names)
    saved = VariableDef(variable_name="v:0", initializer_name="init")
    found.collection_def["variables"].bytes_list.value.append(saved.SerializeToString())
    path.write_bytes(found.SerializeToString())
    return str(path)


@pytest.mark.parametrize("way", ["--resume", "--recover"])
def test_training_goes_on_from_a_checkpoint(
    way: str, save: Callable[[fe.Graph], str], tmp_path: Path, capsys: Output
) -> None:
    command = ["run", save(trains()), "--init", "init", "--target", "sum", "--final", "v", "--json"]
    command += ["--checkpoint", str(tmp_path / "run"), way]
    for start in (1, 2):
        # With --recover, the steps are those of all starts together.
        steps = 2 * start if way == "--recover" else 2
        assert main([*command, "--steps", str(steps)]) == 0
        found = json.loads(capsys.readouterr().out)["values"]["v:0"]["value"]
        assert found == 11 * start


def test_a_meta_graph_trains_and_goes_on_by_itself(tmp_path: Path, capsys: Output) -> None:
    path = meta(
        trains(with_table=True),
        tmp_path / "model.meta",
        train_op=["sum"],
        init_op=["init"],
        table_initializer=["fill"],
    )
    command = ["run", "--meta", path, "--checkpoint", str(tmp_path / "run"), "--resume", "--final", "v"]
    for start in (1, 2):
        assert main([*command, "--steps", "3"]) == 0
        assert capsys.readouterr().out == f"v:0 = {start * (105 + 106 + 107)}\n"


def test_a_run_without_checkpoints_has_them_too(tmp_path: Path, capsys: Output) -> None:
    path = meta(trains(with_table=True), tmp_path / "model.meta", table_initializer=["fill"])
    assert main(["run", path, "--fetch", "found"]) == 0
    assert capsys.readouterr().out == "found:0 = 105\n"
    assert main(["run", path, "--init", "init", "--init", "make_0", "--fetch", "found"]) == 0
    assert capsys.readouterr().out == "found:0 = 105\n"


def test_the_hint_names_who_takes_this_iterator(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    path = save(trains(makers=2))
    assert main(["run", path, "--init", "init", "--fetch", "sum"]) == failure.STEP_ERROR
    assert capsys.readouterr().err.endswith(": add --init make_0 or --init make_1\n")
    assert main(["run", path, "--init", "init", "--init", "make_1", "--fetch", "sum"]) == 0
    assert capsys.readouterr().out == "sum:0 = 5\n"
    path = save(trains(wants=True))
    assert main(["run", path, "--fetch", "next"]) == failure.STEP_ERROR
    assert capsys.readouterr().err.endswith(": add --init make_0\n")
    assert main(["run", path, "--feed", "first=6", "--fetch", "next"]) == 0


def test_the_hint_names_who_fills_this_table(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    path = save(trains(with_table=True))
    assert main(["run", path, "--fetch", "found"]) == failure.STEP_ERROR
    assert capsys.readouterr().err.endswith(": add --init fill\n")


def test_the_hint_of_a_variable_is_its_initializer(save: Callable[[fe.Graph], str], capsys: Output) -> None:
    assert main(["run", save(trains()), "--fetch", "v"]) == failure.STEP_ERROR
    assert capsys.readouterr().err.endswith(" or --init init\n")
