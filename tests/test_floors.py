"""Imports point down: between the rooms of the house, and out of it.

The floors are an import-linter contract in pyproject.toml. What it cannot say is checked here: every module
belongs to a floor, and each third-party library is imported only where it is meant to be, and where importing
it is slow or it may be missing, only inside the function that needs it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

#: library -> the modules, or packages with a trailing dot, that may import it. Others may not.
ALLOWED = {
    "IPython": ("flowengine.train.progress.screens",),  # imported where a notebook has it already
    "cryptography": ("flowengine.cluster.authority",),
    "click": ("flowengine.cli.",),
    "cupy": ("flowengine.devices.cuda", "flowengine.kernels.cuda."),
    "google": ("flowengine.ir.", "flowengine.kernels.", "flowengine.serving."),
    "prometheus_client": ("flowengine.serving.metrics",),
    "uvicorn": ("flowengine.serving.server",),
    "msgpack": ("flowengine.transport.",),
    "rich": ("flowengine.cli.bench.tables", "flowengine.train.progress.terminal"),
    "sniffio": ("flowengine.anyio", "flowengine.serving."),
    "trio": (
        "flowengine.asyncio",
        "flowengine.blocking",
        "flowengine.cli.",
        "flowengine.cluster.",
        "flowengine.devices.cuda",
        "flowengine.kernels.",
        "flowengine.portal",
        "flowengine.resources.",
        "flowengine.runtime.",
        "flowengine.sandbox.",
        "flowengine.saved_model.batching",
        "flowengine.saved_model.loading",
        "flowengine.saved_model.saving",
        "flowengine.serving.",
        "flowengine.session",
        "flowengine.testing.",
        "flowengine.tools.",
        "flowengine.train.",
        "flowengine.transport.calls.caller",
        "flowengine.transport.calls.serving",
        "flowengine.transport.dialling",
        "flowengine.transport.peer",
        "flowengine.transport.server",
        "flowengine.transport.streams.inproc",
        "flowengine.transport.streams.closed_sockets",
        "flowengine.transport.streams.records",
        "flowengine.transport.streams.tcp",
        "flowengine.transport.streams.tls",
        "flowengine.transport.tensors.rendezvous",
    ),
    "hypothesis": ("flowengine.testing.",),
    "PIL": ("flowengine.cli.", "flowengine.kernels."),
    "simplejpeg": ("flowengine.kernels.image.jpeg",),
    "re2": ("flowengine.kernels.strings.patterns",),
    "pyarrow": ("flowengine.cli.tables.reading", "flowengine.cli.tables.writing"),
    "sentencepiece": ("flowengine.kernels.strings.sentencepiece_model",),
    "cramjam": ("flowengine.resources.data.saved.snappy",),
    "scipy": ("flowengine.kernels.",),
}
EVERYWHERE = {"numpy", "ml_dtypes", "flowengine"}

#: Imported inside the function that needs them: they are slow to import or may be missing.
LAZY = {
    "PIL",
    "cramjam",
    "cryptography",
    "cupy",
    "prometheus_client",
    "pyarrow",
    "re2",
    "rich",
    "scipy",
    "sentencepiece",
    "simplejpeg",
    "uvicorn",
}


def modules() -> Iterator[tuple[str, Path]]:
    """(dotted name, file) of each module of the package."""
    for folder, name in (
        ("flowengine", "flowengine"),
        ("kernels", "flowengine.kernels"),
        ("transport", "flowengine.transport"),
    ):
        base = ROOT / folder
        for path in sorted(base.rglob("*.py")):
            inside = path.relative_to(base)
            if folder == "flowengine" and inside.parts[0] in ("kernels", "transport"):
                continue
            parts = [name, *inside.with_suffix("").parts]
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def imports(tree: ast.AST, *, top: bool) -> Iterator[str]:
    """The first part of each absolute import; with `top`, only those that run when the module is imported."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            yield node.module.split(".")[0]
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from imports(ast.Module(node.orelse, []), top=top)
        elif top and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        else:
            yield from imports(node, top=top)


@pytest.mark.parametrize(
    ("name", "path"), list(modules()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_libraries_are_imported_only_where_they_belong(name: str, path: Path) -> None:
    tree = ast.parse(path.read_text())
    for library in set(imports(tree, top=False)) - sys.stdlib_module_names - EVERYWHERE:
        assert library in ALLOWED, f"{name} imports {library}, which is no dependency"
        permitted = any(f"{name}.".startswith(p) if p.endswith(".") else name == p for p in ALLOWED[library])
        assert permitted, f"{name} may not import {library}"
    early = set(imports(tree, top=True)) & LAZY
    assert not early, f"{name} imports {early} at its top: import it in the function that needs it"


def test_every_module_belongs_to_a_floor() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text())
    (contract,) = config["tool"]["importlinter"]["contracts"]
    known = {room.strip(" ()") for layer in contract["layers"] for room in layer.split("|")}
    rooms = {name.split(".")[1] for name, _ in modules() if name != "flowengine"}
    assert rooms <= known | set(contract["exhaustive_ignores"])


@pytest.mark.slow
def test_the_floors_hold() -> None:
    linter = Path(sys.executable).with_name("lint-imports")
    if not linter.exists():
        pytest.skip("import-linter is not installed")
    done = subprocess.run([str(linter), "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_importing_the_package_is_cheap() -> None:
    code = (
        "import sys, flowengine\n"
        "slow = {'trio', 'scipy', 'PIL', 'cupy', 're2', 'click', 'rich', 'msgpack', 'google.protobuf'}\n"
        "print(*(slow & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
