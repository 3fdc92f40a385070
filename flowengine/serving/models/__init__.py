"""Models that are served: where they lie, which versions answer, and how they come and go."""
