"""Gradients of operations on images."""
