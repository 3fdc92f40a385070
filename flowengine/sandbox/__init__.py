"""A stranger's graph in a process of its own, which has locked itself in before it reads a byte of it."""
