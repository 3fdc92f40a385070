"""Duties: what an op must be taken for, by its signature, and where it reaches out of its graph."""
