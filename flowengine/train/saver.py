"""Saver: checkpoints of a session's variables."""

from __future__ import annotations


class Saver:
    """Saves and restores the variables of a session."""
