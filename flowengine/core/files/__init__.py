"""Files: what a graph may reach of them, and those that hold secrets."""
