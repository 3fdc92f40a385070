"""Graphs as drawings and values as histograms, for a person who looks at a model."""
