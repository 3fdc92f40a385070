"""Steps in place: a step that needs no waiting runs in the thread of its caller, without any other thread.

Decision 22 has the gains.
"""
