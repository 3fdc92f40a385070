"""Nonsense by structure: graphs, op calls, records, checkpoints, images and frames that somebody has damaged.

    python -m tests.tools.fuzz --kind graphs --seeds 0:1000 --folder .fuzz

Each seed makes one input, the same in any process, from a good one that is changed where its structure
allows: a field, an attribute, an edge into another frame, a shape beside its content, a length. It is played
in a child process under a memory limit and a deadline. An answer or an error of ours is as it should be; a
crash, a hang, another exception, or more memory than was allowed is a finding, which is made smaller and
written down.
"""

from __future__ import annotations

from tests.tools.fuzz.kinds import KINDS, DamagedKind, made

__all__ = ["KINDS", "DamagedKind", "made"]
