"""The worker service of a task: what is registered with it, and its parts of steps."""
