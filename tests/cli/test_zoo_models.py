"""Recorded SavedModels by `flowengine run DIR`, with their signature and no further option."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flowengine.cli.main import main

Output = pytest.CaptureFixture[str]


def _array(folder: Path, value: dict[str, Any]) -> Any:
    if "npy" in value:
        return np.load(folder / value["npy"])
    parts = [base64.b64decode(each) for each in value["bytes_b64"]]
    array = np.empty(len(parts), object)
    array[:] = parts
    return array.reshape(value["shape"])


def _given(folder: Path, work: Path, name: str, value: dict[str, Any]) -> str:
    """Return the argument of `--feed` for a value: its name and the file that the value is written to."""
    array = _array(folder, value)
    if not array.dtype.hasobject:
        np.save(work / f"{name}.npy", array)
        return f"{name}={work / name}.npy"
    np.savez(work / f"{name}.npz", **{name: array.astype("S")})
    return f"{name}={work / name}.npz"


def _calls(case: dict[str, Any]) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(signature, {input: value}, {output: what is expected}) of runs that restored variables come before.

    A run that leaves something to the next is followed by none: every command restores them anew.
    """
    found = []
    for run in case["runs"][1:]:
        for name, signature in case["signatures"].items():
            outputs = {
                key: expected
                for key, port in signature["outputs"].items()
                for fetch, expected in zip(run["fetches"], run["expect"], strict=True)
                if fetch == port
            }
            if outputs and set(signature["inputs"].values()) == set(run["feeds"]):
                feeds = {key: run["feeds"][port] for key, port in signature["inputs"].items()}
                found.append((name, feeds, outputs))
        if any("Assign" in fetch for fetch in run["fetches"]):
            break
    return found


def test_every_saved_model_is_called(shared: Path, tmp_path: Path, capsys: Output) -> None:
    folders = sorted(path.parent for path in (shared / "zoo" / "open").glob("*/saved_model.pb"))
    assert len(folders) == 3
    calls = 0
    for folder in folders:
        case = json.loads((folder / "case.json").read_text())
        for signature, feeds, outputs in _calls(case):
            given = [
                word
                for name, value in feeds.items()
                for word in ("--feed", _given(folder, tmp_path, name, value))
            ]
            chosen = [] if signature == "serving_default" else ["--signature", signature]
            assert main(["run", str(folder), *chosen, *given, "--json"]) == 0, (folder, signature)
            document = json.loads(capsys.readouterr().out)["values"]
            for name, expected in outputs.items():
                wanted = _array(folder, expected["value"])
                np.testing.assert_allclose(
                    document[name]["value"], wanted, expected["rtol"], expected["atol"], err_msg=signature
                )
            calls += 1
    assert calls == 7
