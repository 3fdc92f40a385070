"""Gradients of operations that quantise."""
