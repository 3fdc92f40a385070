"""`flowengine debug`: a step that a person stops before its nodes."""
