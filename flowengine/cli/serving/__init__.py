"""`flowengine serve`: models behind HTTP."""
