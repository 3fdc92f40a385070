"""Kernels for NVIDIA's GPUs: sources in CUDA C, made or kept here as text."""
