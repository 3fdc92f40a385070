"""The comparison of types with TensorFlow's kernels finds what is missing, and says it in few words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from flowengine.ops.load import registry
from tests.conformance import types_beside_tensorflow as beside
from tests.oprecords.record import kernels


@pytest.mark.parametrize(
    ("op", "types", "taken"),
    [
        ("MatMul", {"T": "float"}, True),
        ("MatMul", {"T": "string"}, False),
        ("MatMul", {"T": "float9"}, False),
        ("GatherNd", {"Tparams": "float8_e5m2", "Tindices": "int16"}, True),
        ("GatherNd", {"Tparams": "float", "Tindices": "int8"}, False),
        ("AsString", {"T": "variant"}, False),
    ],
)
def test_a_type_is_taken_by_op_and_kernel(op: str, types: Mapping[str, str], taken: bool) -> None:
    assert beside.is_taken(registry()[op], kernels()[op], types) is taken


def test_ops_and_attributes_that_are_not_here_count_for_nothing() -> None:
    theirs: dict[str, list[Mapping[str, Sequence[str]]]] = {
        "MatMul": [{"T": ["float"], "no_such_attribute": ["string"]}, {"T": ["string", "half"]}],
        "NoSuchOp": [{"T": ["float"]}],
        "NoOp": [{}],
    }
    assert beside.missing(theirs) == {"MatMul": [{"T": "string"}]}


@pytest.mark.parametrize(
    ("lacking", "words"),
    [
        ([{"T": "float"}, {"T": "half"}], "T: float half"),
        (
            [{"T": t, "I": i} for t in ("float", "half") for i in ("int8", "int16")],
            "T: float half; I: int8 int16",
        ),
        ([{"T": "float", "I": "int8"}, {"T": "half", "I": "int16"}], "T=float I=int8, T=half I=int16"),
    ],
)
def test_combinations_are_told_together_where_they_are_all(
    lacking: Sequence[Mapping[str, str]], words: str
) -> None:
    assert beside.told(lacking) == words


@pytest.mark.parametrize(
    ("theirs", "status", "said"),
    [
        ({"MatMul": [{"T": ["float"]}]}, 0, "1 of 1 ops take every type"),
        ({"MatMul": [{"T": ["float", "string"]}]}, 1, "MatMul: T: string"),
        ({"AsString": [{"T": ["variant"]}]}, 0, "AsString: not variant: the text"),
    ],
)
def test_the_exit_status_says_whether_any_is_missing(
    theirs: object, status: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\necho warning\necho '{json.dumps(theirs)}'\n")
    python.chmod(0o755)
    assert beside.main(["--python", str(python)]) == status
    assert said in capsys.readouterr().out


def test_a_python_without_tensorflow_is_told(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no such module >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(SystemExit, match="no such module"):
        beside.main(["--python", str(python)])
