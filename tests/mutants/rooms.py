"""Rooms and their judges: the sources to change in each room, and the tests that may notice."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final


@dataclass(frozen=True)
class Room:
    """sources: folders and files to change; tests: folders and files of tests that may notice."""

    sources: tuple[str, ...]
    tests: tuple[str, ...]

    def files(self, root: Path) -> list[str]:
        """The sources as paths from the root, sorted; generated ones and package markers are left out."""
        found: list[Path] = []
        for source in self.sources:
            path = root / source
            found += [path] if path.is_file() else path.rglob("*.py")
        names = sorted({each.relative_to(root).as_posix() for each in found})
        return [name for name in names if not name.endswith(("__init__.py", "/index.py", "_pb2.py"))]


_ENGINE: Final = ("tests/runtime", "tests/test_session.py", "tests/test_facades.py", "tests/testing")

ROOMS: Final[dict[str, Room]] = {
    "runtime": Room(("flowengine/runtime",), (*_ENGINE, "tests/passes", "tests/cluster/graphs")),
    "passes": Room(("flowengine/passes",), ("tests/passes", *_ENGINE, "tests/devices")),
    "resources": Room(
        ("flowengine/resources",),
        (
            "tests/resources",
            "tests/data/test_dataset.py",
            "tests/train",
            "tests/devices/test_device_variables.py",
        ),
    ),
    "checkpoint": Room(("flowengine/checkpoint",), ("tests/checkpoint", "tests/train", "tests/cli")),
    "train": Room(("flowengine/train",), ("tests/train", "tests/checkpoint")),
    "transport": Room(("transport",), ("tests/transport", "tests/cluster", "tests/simulation")),
    "cluster": Room(("flowengine/cluster",), ("tests/cluster", "tests/simulation", "tests/cli")),
    "graphs": Room(
        ("flowengine/graphs", "flowengine/ir"), ("tests/graphs", "tests/ir", "tests/passes/test_pipeline.py")
    ),
    "functions": Room(
        ("flowengine/functions",),
        (
            "tests/functions",
            "tests/graphs/functions",
            "tests/resources/data",
            "tests/passes/test_open_calls.py",
        ),
    ),
    "gradients": Room(("flowengine/gradients",), ("tests/gradients",)),
    "kernels": Room(
        (
            "kernels/common",
            "kernels/numpy",
            "kernels/state",
            "kernels/math/segments.py",
            "kernels/math/cast.py",
            "kernels/math/reductions.py",
            "kernels/nn",
        ),
        ("tests/kernels", "tests/oprecords", "tests/ops"),
    ),
}
