"""The gradient of a while loop: a loop that goes through the iterations backwards."""
