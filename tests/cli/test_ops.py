"""`flowengine ops`: what can run here."""

from __future__ import annotations

import json

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main
from flowengine.ops.left_out import LEFT_OUT, NOT_YET, reason

Output = pytest.CaptureFixture[str]


def test_a_part_of_a_name_or_a_pattern(capsys: Output) -> None:
    assert main(["ops", "matmul"]) == 0
    assert "MatMul(a: T, b: T) -> product: T" in capsys.readouterr().out
    assert main(["ops", "Mat?ul"]) == 0
    assert "BatchMatMul" not in capsys.readouterr().out
    assert main(["ops", "nothing-like-it"]) == failure.USAGE


def test_dtypes_are_those_that_a_kernel_takes(capsys: Output) -> None:
    assert main(["ops", "Invert", "--json"]) == 0
    found = {each["name"]: each for each in json.loads(capsys.readouterr().out)["ops"]}
    assert "int32" in found["Invert"]["types"]["T"]
    assert "float32" not in found["Invert"]["types"]["T"]
    assert found["Invert"]["devices"] == ["any"]
    assert main(["ops", "QueueEnqueue", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ops"][0]["devices"] == ["CPU"]


def test_lists_and_references_are_written_as_such(capsys: Output) -> None:
    assert main(["ops", "Concat*"]) == 0
    assert "ConcatV2(values: N*T, axis: Tidx) -> output: T" in capsys.readouterr().out
    assert main(["ops", "Assign"]) == 0
    assert "Assign(ref: Ref(T), value: T) -> output_ref: Ref(T)" in capsys.readouterr().out


def test_calls_of_functions_run_here(capsys: Output) -> None:
    assert main(["ops", "PartitionedCall"]) == 0
    shown = capsys.readouterr().out
    assert "PartitionedCall(args: Tin) -> output: Tout\n    any, engine\n" in shown
    assert main(["ops", "--missing", "While"]) in (0, failure.USAGE)
    assert "\nWhile(" not in "\n" + capsys.readouterr().out


def test_missing_are_those_without_a_kernel(capsys: Output) -> None:
    assert main(["ops", "--missing", "--json"]) == 0
    missing = {each["name"] for each in json.loads(capsys.readouterr().out)["ops"]}
    assert main(["ops", "--json"]) == 0
    present = {each["name"] for each in json.loads(capsys.readouterr().out)["ops"]}
    assert missing
    assert not missing & present
    assert main(["ops", "--missing", "MatMul"]) in (0, failure.USAGE)
    assert "\nMatMul(" not in capsys.readouterr().out


def test_a_missing_op_says_so(capsys: Output) -> None:
    assert main(["ops", "--missing", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)["ops"][0]
    assert main(["ops", "--missing", first["name"]]) == 0
    assert f"{first['signature']}\n    no kernel" in capsys.readouterr().out


def test_what_is_left_out_is_told_with_its_reason(capsys: Output) -> None:
    """Also of an op that is known by its family only."""
    assert main(["ops", "--missing", "XlaSort"]) == 0
    assert capsys.readouterr().out == "Xla*\n    no kernel: what XLA's compiler makes of other ops\n"
    assert main(["ops", "--missing", "--json"]) == 0
    assert all(each["why"] for each in json.loads(capsys.readouterr().out)["ops"])


def test_nothing_is_left_out_twice() -> None:
    names = [name for each in LEFT_OUT.values() for name in each.split()]
    assert len(set(names)) == len(names)
    assert reason("TPUReplicate") == "for TPUs alone"
    assert reason("NoSuchOp") == NOT_YET
