"""What the shell knows of exported models: signatures, restoring, freezing."""
