"""Exported models in the command line: signatures, restoring, freezing."""
