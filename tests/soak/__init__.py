"""Many steps, and what is left of them."""
