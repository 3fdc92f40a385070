"""Steps in place: a step that needs no waiting runs in the thread of its caller, and no other takes part.

Decision 22 says what that is worth.
"""
