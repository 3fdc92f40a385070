"""Reading recorded cases, and telling a right value from a wrong one."""

from __future__ import annotations

import base64
import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import flowengine as fe
from tests.tools.recorded import ExpectedFetch, difference, find_cases, open_case
from tests.tools.replay import ReplayOutcome, judge, replay_case
from tests.tools.workers import main, replay_all, summary


def npy(value: Any) -> bytes:
    data = io.BytesIO()
    np.save(data, value, allow_pickle=False)
    return data.getvalue()


def write_case(path: Path, expected: Any, **more: Any) -> Path:
    """A zip with one case: y = x * x, fed 3, expected as given."""
    g = fe.Graph()
    x = g.placeholder("float32", [], name="x")
    g.ops.Mul(x, x, name="y")
    run = {
        "feeds": {"x:0": {"npy": "a0.npy"}},
        "fetches": ["y:0"],
        "targets": [],
        "expect": [{"value": {"npy": "a1.npy"}, "compare": "close", "rtol": 1e-6, "atol": 0.0}],
    }
    meta = {"id": path.stem, "suite": "made", "ops": ["Mul"], "runs": [{**run, **more}]}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("case.json", json.dumps(meta))
        archive.writestr("graph.pb", g.to_graph_def().SerializeToString())
        archive.writestr("a0.npy", npy(np.float32(3)))
        archive.writestr("a1.npy", npy(expected))
    return path


def test_right_and_wrong_values_are_told_apart(tmp_path: Path) -> None:
    assert replay_case(str(write_case(tmp_path / "right.zip", np.float32(9)))).status == "pass"
    wrong = replay_case(str(write_case(tmp_path / "wrong.zip", np.float32(9.1))))
    assert (wrong.status, wrong.run, wrong.fetch) == ("fail", 0, "y:0")
    assert "9.0" in wrong.why
    other_type = replay_case(str(write_case(tmp_path / "type.zip", np.float64(9))))
    assert "dtype float32, expected float64" in other_type.why


def test_expected_errors_must_come_and_be_of_the_class(tmp_path: Path) -> None:
    calm = write_case(tmp_path / "calm.zip", np.float32(9), error={"class": "InvalidArgumentError"})
    assert replay_case(str(calm)).why == "no error, expected InvalidArgumentError"
    bad_fetch = {"fetches": ["z:0"], "error": {"class": "DataLossError"}}
    other = replay_case(str(write_case(tmp_path / "other.zip", np.float32(9), **bad_fetch)))
    assert other.status == "fail"
    assert "expected DataLossError" in other.why


def test_cases_are_found_in_folders_zips_and_tars(tmp_path: Path) -> None:
    first = write_case(tmp_path / "first.zip", np.float32(9))
    with tarfile.open(tmp_path / "many.tar", "w") as archive:
        archive.add(first, "sub/second.zip")
    with zipfile.ZipFile(first) as archive:
        archive.extractall(tmp_path / "third")
    addresses = list(find_cases(tmp_path))
    assert len(addresses) == 3
    results = replay_all(addresses, jobs=2)
    assert [r.status for r in results] == ["pass"] * 3
    assert "100.0" in summary(results)
    assert main([str(tmp_path), "--id", "first"]) == 0


def test_a_worker_that_hangs_or_dies_costs_one_case(tmp_path: Path) -> None:
    good = write_case(tmp_path / "a.zip", np.float32(9))
    broken = tmp_path / "b.zip"
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("case.json", json.dumps({"id": "b", "runs": []}))
    results = replay_all([str(good), str(broken), str(good)])
    assert [r.status for r in results] == ["pass", "error", "pass"]


def test_file_names_move_to_a_folder_of_equal_length(tmp_path: Path) -> None:
    root = "/recorded/folder/of/some/length"
    path = tmp_path / "files.zip"
    text = base64.b64encode(f"{root}/data".encode()).decode()
    meta = {
        "id": "files",
        "io_root": root,
        "mkdirs": ["sub"],
        "files": [{"path": "sub/data", "member": "f0.bin"}],
        "runs": [
            {"feeds": {"s:0": {"bytes_b64": [text], "shape": []}}, "fetches": [], "targets": [], "expect": []}
        ],
    }
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("case.json", json.dumps(meta))
        archive.writestr("graph.pb", b"")
        archive.writestr("f0.bin", f"see {root}")
    mine = str(tmp_path).ljust(len(root), "x")[: len(root)]
    case = open_case(str(path), mine)
    assert case.runs[0].feeds["s:0"].item() == f"{mine}/data".encode()
    with pytest.raises(ValueError, match="as long as"):
        open_case(str(path), mine + "x")


def strings(*values: bytes) -> Any:
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


@pytest.mark.parametrize(
    ("want", "got", "how", "same"),
    [
        (np.array([1, np.nan], np.float32), np.array([1, np.nan], np.float32), {"compare": "exact"}, True),
        (np.array([1, np.nan], np.float32), np.array([1, 2], np.float32), {"compare": "exact"}, False),
        (np.array([1], np.float32), np.array([1.05], np.float32), {"rtol": 0.1}, True),
        (np.array([1], np.float32), np.array([1.05], np.float32), {"rtol": 0.01}, False),
        (np.array([np.inf], np.float32), np.array([-np.inf], np.float32), {"rtol": 1.0}, False),
        (np.array([-1], np.float32), np.array([1], np.float32), {"magnitude": True}, True),
        (np.array([1], np.float32), np.array([[1]], np.float32), {"compare": "shape"}, False),
        (np.array([1], np.float32), np.array([7], np.float32), {"compare": "shape"}, True),
        (np.array([1], np.int32), np.array([1], np.int64), {"compare": "exact"}, False),
        (np.array([1 + 2j], np.complex64), np.array([1 + 2.00001j], np.complex64), {"rtol": 1e-4}, True),
        (np.array([1 + 2j], np.complex64), np.array([1 - 2j], np.complex64), {"rtol": 1e-4}, False),
        (
            np.array([complex(np.nan, 1)], np.complex64),
            np.array([complex(np.nan, 1)], np.complex64),
            {"rtol": 1e-4},
            True,
        ),
        (np.array([1], ml_dtypes.bfloat16), np.array([1], ml_dtypes.bfloat16), {"compare": "exact"}, True),
        (strings(b"a\0"), strings(b"a\0"), {"compare": "exact"}, True),
        (strings(b"a\0"), strings(b"a"), {"compare": "exact"}, False),
        (strings(b"a"), np.array([1], np.int32), {"compare": "exact"}, False),
        (
            np.array([3], np.int8),
            np.array([(3,)], [("qint8", np.int8)]),
            {"compare": "exact", "tag": "qint8"},
            True,
        ),
        (np.int32(3), np.int32(3), {"compare": "exact"}, True),
    ],
)
def test_difference(want: Any, got: Any, how: Any, same: bool) -> None:
    assert (difference(ExpectedFetch(want, **how), got) is None) == same


def test_the_first_difference_decides(tmp_path: Path) -> None:
    case = open_case(str(write_case(tmp_path / "c.zip", np.float32(9))))
    assert judge(case, [ReplayOutcome(values=[np.float32(9)])]).status == "pass"
    assert judge(case, [ReplayOutcome(values=[])]).why == "0 values, expected 1"
    missing = judge(case, [ReplayOutcome((), "NotFoundError", "Op type not registered 'Fancy'")])
    assert (missing.status, missing.missing_op) == ("error", "Fancy")
