"""The start of a process in a box: it closes files while it has one thread, then imports the kernels.

Nothing here may import NumPy before `close_files`: NumPy's libraries start threads, and those would
stay outside.
"""

from __future__ import annotations

import socket
import sys
from typing import Final

# Imported before files are closed: it starts a program that lists the system's libraries, and no thread.
import trio as _trio  # noqa: F401

from flowengine.sandbox import confine
from flowengine.sandbox.start_orders import BoxOrders, said

_REFUSED: Final = 3


def main() -> None:
    """Serve one host over the descriptor that the command line names, until it is gone."""
    channel = socket.socket(fileno=int(sys.argv[1]))
    try:
        orders = BoxOrders.receive(channel)
    except (EOFError, OSError):
        sys.exit(_REFUSED)
    try:
        levels = _begin(orders, channel.fileno())
    except confine.ConfinementError as error:
        channel.sendall(said({}, str(error)))
        sys.exit(_REFUSED)
    from flowengine.sandbox.child_service import serve

    serve(orders, levels, channel)


def _begin(orders: BoxOrders, descriptor: int) -> dict[str, str]:
    """The levels that are closed, or are about to be: {level: what there is of it}.

    Raises ConfinementError for one that is required and cannot be had.
    """
    without = confine.missing()
    for level in orders.require:
        if level in without:
            raise confine.ConfinementError(f"{level}: {without[level]}")
    confine.detach(orders.parent, (descriptor, *(segment for segment, _ in orders.segments)))
    # Bytecode cannot be written below.
    sys.dont_write_bytecode = True
    levels = {confine.LIMITS: "set"}
    if confine.LANDLOCK not in without:
        confine.close_files(orders.packages, orders.read, orders.write)
        levels[confine.LANDLOCK] = f"version {confine.landlock_version()}"
    if confine.SECCOMP not in without:
        levels[confine.SECCOMP] = "all threads"
    return levels


if __name__ == "__main__":
    main()
