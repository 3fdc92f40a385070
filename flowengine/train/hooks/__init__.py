"""Hooks of `fe.train.loop`, and the state of the loop that they see."""
