"""Batches of what many steps bring: their rows put together, and handed back."""
