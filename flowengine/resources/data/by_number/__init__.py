"""Datasets that ask another for elements by their numbers, and the order in which they do."""
