"""Whole clusters simulated in one process: see `simulation.world`, and docs/simulation.md."""
