"""Programs of primitives, prepared once and called with addresses, and products of matrices as such."""
