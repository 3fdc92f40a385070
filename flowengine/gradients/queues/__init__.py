"""Gradients of operations on queues and batches."""
