"""Passes from graph to graph: one small file for each, in the order that `pipeline` gives."""
