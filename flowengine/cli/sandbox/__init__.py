"""`flowengine sandbox`, and `--sandbox` of other verbs."""
