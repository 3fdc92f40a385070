"""The record of a step: each node, block, transfer and wait with its times, and what reads it."""
