"""What steps will run, made once a request: items with bound kernels, and what is learned of their times."""
