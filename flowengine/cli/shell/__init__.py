"""Habits of shells: suggestions for mistyped commands, help in sections, completion of names."""
