"""Gradients of the layers of networks."""
