"""The steps of `flowengine run`: a job of them, its checkpoints, recovery."""
