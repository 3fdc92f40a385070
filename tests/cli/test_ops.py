"""`flowengine ops`: what can run here."""

from __future__ import annotations

import json

import pytest

from flowengine.cli import failure
from flowengine.cli.main import main

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


def test_missing_are_those_with_a_signature_only(capsys: Output) -> None:
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
