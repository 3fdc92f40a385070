"""`flowengine doctor`: whether what is installed here fits together.

It looks at what the import itself never looks at: which distribution the package came from, whether another
one shares its folder, what is installed beside it, and what bounds a graph.
"""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import click

from flowengine.cli.failure import STEP_ERROR, printable
from flowengine.cli.results import dumps

#: What installs the package; the name that it is imported by belongs to another project on the public index.
DISTRIBUTION: Final = "flowengine-dataflow"
IMPORT_NAME: Final = "flowengine"
#: What both projects install is told apart by this entry point.
_OUR_SCRIPT: Final = "flowengine.cli.main:main"

#: {extra: the distributions of which one is enough}
EXTRAS: Final = {
    "fast": ("onednn-cpu-gomp", "onednn"),
    "cuda": ("cupy-cuda13x",),
    "image": ("pillow",),
    "snappy": ("cramjam",),
    "tables": ("pyarrow",),
    "text": ("sentencepiece",),
    "tls": ("cryptography",),
    "testing": ("hypothesis",),
}

HELP: Final = """\
Check the installation: versions, compute libraries, devices, extras, and the limits for graphs.

The command finds another project with the import name flowengine in this environment, and modules that the
distribution did not install. In both cases, the exit code is 1.
"""


@dataclass(slots=True)
class Checkup:
    """The findings of a check. `problems` are wrong; `hints` are worth knowing."""

    versions: dict[str, str] = field(default_factory=dict)
    location: str = ""
    providers: list[dict[str, Any]] = field(default_factory=list)
    devices: list[str] = field(default_factory=list)
    extras: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    hints: list[str] = field(default_factory=list)


@click.command("doctor", help=HELP)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def command(ctx: click.Context, as_json: bool, debug: bool) -> None:
    found = checkup()
    click.echo(dumps(asdict(found)) if as_json else readable(found), nl=False)
    if found.problems:
        ctx.exit(STEP_ERROR)


def checkup() -> Checkup:
    """Look at everything once."""
    import flowengine

    found = Checkup(location=str(Path(flowengine.__file__).parent))
    _versions(found)
    _libraries(found)
    _bounds(found)
    _distributions(found, Path(flowengine.__file__).parent)
    return found


def version() -> str:
    """The version of the installed distribution; of the source, where none is installed."""
    import flowengine

    try:
        return importlib.metadata.version(DISTRIBUTION)
    except importlib.metadata.PackageNotFoundError:
        return flowengine.__version__


def version_line() -> str:
    """Describe the version in one line, with those of Python, NumPy and oneDNN."""
    import numpy as np

    from flowengine.kernels.onednn.library import named_version

    found = named_version()
    onednn = f"oneDNN {found}" if found else "no oneDNN"
    python = platform.python_version()
    return f"flowengine {version()} (Python {python}, NumPy {np.__version__}, {onednn})"


def _versions(found: Checkup) -> None:
    found.versions["python"] = f"{platform.python_version()} ({sys.executable})"
    found.versions["platform"] = platform.platform()
    found.versions[DISTRIBUTION] = version()
    names = ("click", "ml_dtypes", "msgpack", "numpy", "protobuf", "rich", "scipy", "trio")
    for name in names:
        installed = _installed(name)
        found.versions[name] = installed or "not installed"
        if not installed:
            found.problems.append(f"{name} is not installed, and nothing runs without it")


def _installed(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _libraries(found: Checkup) -> None:
    from flowengine.cli.devices import found as devices
    from flowengine.cli.devices import libraries

    found.providers = [asdict(each) for each in libraries()]
    found.devices = [each.name for each in devices(())]
    for extra, names in EXTRAS.items():
        have = [f"{name} {installed}" for name in names if (installed := _installed(name))]
        found.extras[extra] = ", ".join(have) or "not installed"


def _bounds(found: Checkup) -> None:
    """Record the limits on what a graph may access and use; see docs/security.md."""
    from flowengine.core.config import Config

    settings = Config().resolved()
    limit = settings.memory_limit_bytes
    found.bounds["file_access"] = str(settings.file_access)
    found.bounds["memory_limit_bytes"] = f"{limit:,}" if limit else "none"
    found.bounds["processes"] = "a graph runs in the process of its session, with that process's rights"


def _distributions(found: Checkup, package: Path) -> None:
    """Record other distributions that install a package of this name."""
    for other in _named(IMPORT_NAME):
        where = printable(str(other.locate_file("")))
        if any(entry.value == _OUR_SCRIPT for entry in other.entry_points):
            found.hints.append(
                f"an earlier version was installed under the name {IMPORT_NAME!r} ({where}); it shares this "
                f"one's files: uninstall both, then install {DISTRIBUTION} again"
            )
        else:
            found.problems.append(
                f"another project, {IMPORT_NAME!r} {other.version} ({where}), has the same import name, and "
                f"the files of both are mixed: pip uninstall {IMPORT_NAME} {DISTRIBUTION}, then install "
                "one of them again, each in an environment of its own"
            )
    ours = _named(DISTRIBUTION)
    if not ours:
        found.hints.append(
            f"no distribution {DISTRIBUTION!r} is installed: this runs from a folder of source"
        )
        return
    foreign = _foreign(package, ours[0])
    if foreign:
        shown = ", ".join(foreign[:5]) + (", ..." if len(foreign) > 5 else "")
        found.problems.append(
            f"{len(foreign)} modules in {package} did not come with {DISTRIBUTION}: {printable(shown)}"
        )


def _named(name: str) -> list[importlib.metadata.Distribution]:
    return list(importlib.metadata.distributions(name=name))


def _foreign(package: Path, ours: importlib.metadata.Distribution) -> list[str]:
    """Modules in the package's folder that our distribution did not install; none for an editable one."""
    listed = {Path(str(each.locate())).resolve() for each in ours.files or ()}
    if package.resolve() / "__init__.py" not in listed:
        return []
    return sorted(
        path.relative_to(package).as_posix()
        for path in package.resolve().rglob("*.py")
        if path.resolve() not in listed
    )


def readable(found: Checkup) -> str:
    """The findings as text, what is wrong at the end."""
    lines = [f"flowengine {found.versions[DISTRIBUTION]} in {printable(found.location)}"]
    lines += ["versions:", *(f"  {name} {text}" for name, text in found.versions.items())]
    lines.append("libraries that compute:")
    for each in found.providers:
        state = each["version"] if each["available"] else f"not used: {printable(each['reason'])}"
        lines.append(f"  {each['name']} {state}")
    lines += ["devices:", *(f"  {name}" for name in found.devices)]
    lines += ["extras:", *(f"  {name}: {text}" for name, text in found.extras.items())]
    lines += ["what bounds a graph:", *(f"  {name}: {text}" for name, text in found.bounds.items())]
    lines += [f"hint: {each}" for each in found.hints]
    lines += [f"problem: {each}" for each in found.problems] or ["no problem found"]
    return "\n".join(lines) + "\n"
