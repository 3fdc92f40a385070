"""`flowengine checkpoint`: looking into checkpoints."""
