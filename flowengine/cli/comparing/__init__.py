"""`flowengine compare`: the first tensor in which two graphs, checkpoints or records differ."""
