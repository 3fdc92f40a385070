"""Modules that a plain `flowengine run` does without."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

UNUSED = (
    "flowengine.cli.pictures.detections",
    "flowengine.cli.pictures.palette",
    "flowengine.cli.running.recovery",
    "flowengine.cli.tables.planning",
    "flowengine.cli.tables.reading",
    "flowengine.cli.tables.running",
    "flowengine.cli.tables.writing",
    "csv",
)


def test_tables_and_pictures_are_imported_where_they_are_used(tmp_path: Path) -> None:
    graph = tmp_path / "g.pbtxt"
    graph.write_text('node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } }')
    code = (
        "import sys\nfrom flowengine.cli.main import main\n"
        f"assert main(['run', {str(graph)!r}, '--feed', 'x=2', '--fetch', 'x']) == 0\n"
        f"print([name for name in {UNUSED} if name in sys.modules])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    assert ran.stdout.splitlines() == ["x:0 = 2.0", "[]"]
