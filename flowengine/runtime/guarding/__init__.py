"""The guard: finds the first node of a step that makes NaN, an infinity or a value out of its bounds."""
