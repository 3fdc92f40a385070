"""Staging areas and maps, named by attributes."""

from __future__ import annotations

from typing import Final

#: {why they have no record: ops}
EXCUSED: Final = {
    "they wait, or hold what others wait for: tests/resources, tests/conformance": """
        MapClear MapIncompleteSize MapPeek MapSize MapStage MapUnstage MapUnstageNoKey
        OrderedMapClear OrderedMapIncompleteSize OrderedMapPeek OrderedMapSize OrderedMapStage
        OrderedMapUnstage OrderedMapUnstageNoKey Stage StageClear StagePeek StageSize Unstage
    """,
}
