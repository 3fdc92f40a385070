"""The gradient of a while loop: a loop that goes through the iterations backwards.

    forward (of the graph)                      backward (built here)

    n = 0, x = x0                               left = n, g = gradient of the last x
    while go on:                                while left >= 1:
        push what the gradient of              v = pop                       (history.py)
        the body needs of x     ------------->  g = gradient of body(v, g)    (sweep.py)
        x = body(x)                             left = left - 1
        n = n + 1               --- n ------->

    regions.py             opens both: the counter n of the forward loop, and the backward loop with its place
                           for gradients
    sweep.py               what comes to the Exits, one iteration backwards, what goes out through the Enters
    history.py             values of an iteration, kept in order: popped last first, or read by their number
    sparse_history.py      keeps one iteration of several, and runs the others again
    carried_variables.py   adds a variable to a loop: Enter, Merge, Switch, NextIteration, Exit

The NextIteration of n waits for the pushes, so they are in order, and the backward loop begins after them.
`control_structure.py`, beside this package, finds loops and conditionals in the graph.
"""
