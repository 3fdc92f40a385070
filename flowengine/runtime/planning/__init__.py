"""Plans for steps, made once a request: items with bound kernels, and their learned times."""
