"""Plans for steps, made once for each request: items with bound kernels, and their learned times."""
