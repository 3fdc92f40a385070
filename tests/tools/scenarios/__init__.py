"""Training of simulated clusters under faults, played by seed."""
