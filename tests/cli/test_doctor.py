"""`flowengine doctor`, in this environment and beside another project of the same import name."""

from __future__ import annotations

import importlib.metadata
import json
from pathlib import Path

import pytest

import flowengine
from flowengine.cli import doctor
from flowengine.cli.main import main
from flowengine.kernels.onednn import library

Output = pytest.CaptureFixture[str]


def _distribution(folder: Path, name: str, version: str, script: str = "") -> None:
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if script:
        (info / "entry_points.txt").write_text(f"[console_scripts]\nflowengine = {script}\n")


def test_it_says_what_is_here(capsys: Output) -> None:
    main(["doctor"])
    shown = capsys.readouterr().out
    assert shown.startswith("flowengine ")
    for part in (
        "  numpy ",
        "  trio ",
        "/device:CPU:0",
        "  image: ",
        "  tls: ",
        "  file_access: ",
        "problem",
    ):
        assert part in shown


def test_as_a_document(capsys: Output) -> None:
    code = main(["doctor", "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == (1 if document["problems"] else 0)
    assert document["versions"]["numpy"] == importlib.metadata.version("numpy")
    assert {each["name"] for each in document["providers"]} >= {"numpy"}


def test_another_project_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    _distribution(tmp_path, "flowengine", "9.9")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["doctor"]) == 1
    assert "problem: another project, 'flowengine' 9.9" in capsys.readouterr().out


def test_an_earlier_installation_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _distribution(tmp_path, "flowengine", "0.0.1", "flowengine.cli.main:main")
    monkeypatch.syspath_prepend(tmp_path)
    found = doctor.checkup()
    assert any("earlier version" in hint for hint in found.hints)
    assert not any("another project" in problem for problem in found.problems)


def test_modules_that_came_from_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "flowengine"
    package.mkdir()
    for name in ("__init__.py", "ours.py", "theirs.py"):
        (package / name).touch()
    _distribution(tmp_path, doctor.DISTRIBUTION, "0.1.0")
    (info,) = tmp_path.glob("*.dist-info")
    (info / "RECORD").write_text("flowengine/__init__.py,,\nflowengine/ours.py,,\n")
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    monkeypatch.setattr(flowengine, "__file__", str(package / "__init__.py"))
    found = doctor.Checkup()
    doctor._distributions(found, package)
    assert found.problems == [f"1 modules in {package} did not come with {doctor.DISTRIBUTION}: theirs.py"]


def test_the_version_of_a_bare_checkout(monkeypatch: pytest.MonkeyPatch, capsys: Output) -> None:
    def missing(name: str) -> str:
        assert name == "flowengine-dataflow"
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith(f"flowengine {flowengine.__version__} (")


@pytest.mark.parametrize("beside", ["libdnnl.so.3.2", "libdnnl.so.3.10.1", None])
def test_the_version_of_onednn_is_that_of_its_file(
    beside: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """Nothing is loaded for it: these files are no libraries."""
    for name in ("libdnnl.so.3", beside):
        if name is not None:
            (tmp_path / name).write_bytes(b"")
    monkeypatch.setenv("FLOWENGINE_ONEDNN", str(tmp_path / "libdnnl.so.3"))
    assert main(["--version"]) == 0
    version = "3" if beside is None else beside.removeprefix("libdnnl.so.")
    assert f", oneDNN {version})" in capsys.readouterr().out


def test_no_version_of_a_missing_onednn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    monkeypatch.setenv("FLOWENGINE_ONEDNN", str(tmp_path / "libdnnl.so.3"))
    monkeypatch.setattr(library, "_found", None)
    assert main(["--version"]) == 0
    assert ", no oneDNN)" in capsys.readouterr().out
