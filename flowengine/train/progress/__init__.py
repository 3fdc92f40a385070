"""How far a loop has got, for the person who waits for it."""
