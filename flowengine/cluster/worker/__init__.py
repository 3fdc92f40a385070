"""The worker service of a task: the graphs that are registered with it, and its parts of steps."""
