"""Convolutions: their shapes, the algorithms that compute them, and what is computed along."""
