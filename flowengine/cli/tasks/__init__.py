"""Commands that serve, look at and drain the tasks of a cluster."""
