"""What NVIDIA's GPUs compute: sources of kernels in CUDA C, made or kept here as text."""
