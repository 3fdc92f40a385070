"""The package list names every package on disk; what is built holds `flowengine` and nothing else."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import flowengine
from tests.generate.packages import packages

ROOT = Path(__file__).resolve().parent.parent

#: Prints the value of 2 + 3 and the name of the folder that flowengine was imported from.
SMALLEST_PROGRAM = '''
import pathlib, flowengine as fe
graph = fe.Graph.from_graph_def("""
    node { name: "a" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
           attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 2 } } } }
    node { name: "b" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }
    node { name: "sum" op: "AddV2" input: "a" input: "b" attr { key: "T" value { type: DT_FLOAT } } }
""")
with fe.blocking.Session(graph) as session:
    print(session.run("sum:0", {"b:0": 3.0}))
print(pathlib.Path(fe.__file__).parent.parent.name)
'''


def test_every_package_on_disk_is_listed() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert config["tool"]["setuptools"]["packages"] == packages(), "run: make generate"


def test_the_version_is_told_once() -> None:
    assert flowengine.__version__ == _version()
    assert f"## {_version()}" in (ROOT / "CHANGELOG.md").read_text()


#: An install command and what it names, up to the end of the line or of what it is quoted in.
_WORD = r"""(?:\\?"[^"\s]*\\?"|\\?'[^'\s]*\\?'|[^\s`"'()|#]+)"""
_INSTALLS = re.compile(rf"\bpip3?[ ]+install((?:[ ]+{_WORD})+)")
#: What may tell somebody to install something.
_TEXTS = (
    "flowengine",
    "transport",
    "kernels",
    "tests",
    "docs",
    ".ci",
    "README.md",
    "CHANGELOG.md",
    "Makefile",
)
_READ = {"", ".py", ".md", ".sh"}
#: What makes files of this repository, or is made for one test environment: not ours, and rightly so.
_TOOLS = {"grpcio-tools", "mypy-protobuf", "hypothesis", "pytest", "pytest-trio"}


def _installed_by(text: str) -> list[str]:
    """Every argument of every install command in a text."""
    return [word.strip("\\\"'") for found in _INSTALLS.findall(text) for word in found.split()]


def test_install_commands_are_read() -> None:
    command = "pip" + " install"
    assert _installed_by(f"x: {command} 'pillow>=10.3'; `{command} -q flowengine` (no {command})") == [
        "pillow>=10.3",
        "-q",
        "flowengine",
    ]
    assert _installed_by(f"'{command} \\'./flowengine[fast]\\' here'") == ["./flowengine[fast]", "here"]


def test_every_install_command_names_a_path_or_a_library_of_others() -> None:
    """Our import name on the public index is another project: no text of ours may lead there."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    requirements = [*project["dependencies"]]
    for extra in project["optional-dependencies"].values():
        requirements += extra
    known = {each.partition(";")[0].strip() for each in requirements} - {f"{project['name']}[fast,image]"}
    bare = {re.split(r"[\[<>=]", each)[0] for each in known} | _TOOLS
    count = 0
    for top in _TEXTS:
        files = [ROOT / top] if (ROOT / top).is_file() else sorted((ROOT / top).rglob("*"))
        for path in files:
            if path == Path(__file__).resolve() or not path.is_file() or path.suffix not in _READ:
                continue
            for word in _installed_by(path.read_text(errors="replace")):
                count += 1
                is_path = word.startswith((".", "/", "$")) or word.endswith(".whl")
                pinned = word.partition("==")[0] in _TOOLS
                assert word.startswith("-") or is_path or pinned or word in known | bare, f"{path}: {word}"
    assert count > 8


def test_no_module_lies_outside_a_package() -> None:
    for top in ("flowengine", "transport", "kernels"):
        for module in (ROOT / top).rglob("*.py"):
            assert (module.parent / "__init__.py").exists(), f"{module} is in a folder without __init__.py"


def test_the_links_are_relative_and_lead_to_the_root() -> None:
    for name in ("transport", "kernels"):
        link = ROOT / "flowengine" / name
        if not link.is_symlink():
            pytest.skip("a checkout without symbolic links")
        assert os.readlink(link) == f"../{name}"


def test_top_level_of_the_checkout_is_as_planned() -> None:
    tracked = subprocess.run(
        ["git", "ls-files", "--full-name"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if tracked.returncode:
        pytest.skip("not a git checkout")
    top = {line.split("/")[0] for line in tracked.stdout.splitlines()}
    planned = {"pyproject.toml", "flowengine", "transport", "kernels", "tests", "docs"}
    beside = {"README.md", "LICENSE", "CHANGELOG.md", "Makefile"}
    assert {name for name in top if not name.startswith(".")} == planned | beside


def test_transport_and_kernels_are_never_imported_by_their_bare_names() -> None:
    """From the root of the checkout that is possible, and gives second copies of every registry."""
    code = (
        "import sys, flowengine, flowengine.cli.main, flowengine.session, flowengine.kernels.load as load\n"
        "load.load_all()\n"
        "assert not {'transport', 'kernels'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)


@pytest.mark.slow
def test_the_wheel_built_from_the_sdist_works_outside_the_tree(tmp_path: Path) -> None:
    dist, tree = tmp_path / "dist", tmp_path / "tree"
    # Building writes beside the sources, and a checkout may be read-only.
    shutil.copytree(
        ROOT, tree, ignore=shutil.ignore_patterns(".*", "__pycache__", "build", "site", "*.egg-info")
    )
    subprocess.run(
        [sys.executable, "-m", "build", "--outdir", str(dist), str(tree)], check=True, capture_output=True
    )
    (wheel,) = dist.glob("*.whl")
    (sdist,) = dist.glob("*.tar.gz")
    assert sdist.stat().st_size < 5_000_000
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"flowengine"}
    assert "flowengine/py.typed" in names
    for module in ("kernels", "transport"):
        on_disk = {p.relative_to(ROOT).as_posix() for p in (ROOT / module).rglob("*.py")}
        assert {f"flowengine/{path}" for path in on_disk} <= set(names)

    clean = tmp_path / "clean"
    subprocess.run([sys.executable, "-m", "venv", str(clean)], check=True)
    python = clean / ("Scripts" if os.name == "nt" else "bin") / "python"
    site = subprocess.run(
        [str(python), "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--no-compile", str(wheel)], check=True)
    roots = [
        p.name
        for p in Path(site).iterdir()
        if p.name.startswith(("flowengine", "kernels", "transport", "tests"))
    ]
    assert sorted(roots) == ["flowengine", f"flowengine_dataflow-{_version()}.dist-info"]

    outside = tmp_path / "elsewhere"
    outside.mkdir()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    said = subprocess.run(
        [str(python), "-I", "-c", SMALLEST_PROGRAM],
        cwd=outside,
        env=environment,
        check=True,
        capture_output=True,
        text=True,
    )
    assert said.stdout.split() == ["5.0", "site-packages"]
    version = subprocess.run(
        [str(python), "-I", "-m", "flowengine", "--version"],
        cwd=outside,
        check=True,
        capture_output=True,
        text=True,
    )
    assert version.stdout.startswith(f"flowengine {_version()} (Python ")


def _version() -> str:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return str(config["project"]["version"])
