"""A simulated network: what is written at one host arrives at another later, or not at all.

Each connection has two wires, one for each direction. Bytes on a wire keep their order and are never lost
while it lives, as with TCP; between wires there is no order. What a host sends passes its processor and its
interface one piece after another, then travels, then passes the interface and the processor of the receiver.

Everything that is sent at one instant is taken together and in the order of the wires' names, so that the
order in which trio happens to cancel tasks does not show.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final, NamedTuple

import trio

from flowengine.testing.simulation.chance import generator
from flowengine.testing.simulation.log import EventLog

#: What counts as it is where other bytes stand for more.
PLAIN_BYTES: Final = 1024
#: Pieces up to this size do not wait for larger ones at an interface, as fair queueing lets them.
SMALL_BYTES: Final = 64 * 1024

#: A pair of hosts, in one direction.
Direction = tuple[str, str]


@dataclass(frozen=True, slots=True)
class LinkModel:
    """The costs of a network. Seconds, and bytes in a second; 0 bytes in a second for no bound.

    latency_seconds       one way, for the first bit
    jitter_seconds        up to so much more, drawn anew for each piece
    stray_seconds, stray_share    up to so much more still, for this share of the pieces
    bytes_per_second      of each host's interface, in each direction: all its connections share it
    piece_seconds         what a host's processor takes for sending or receiving one piece, one at a time
    window_bytes          what one direction of a connection holds before its writer waits
    bytes_scale           how many bytes of the model one real byte stands for, of those that a piece has
                          beyond 1 KiB: so tensors may be small and count as large
    """

    latency_seconds: float = 100e-6
    jitter_seconds: float = 50e-6
    stray_seconds: float = 0.0
    stray_share: float = 0.0
    bytes_per_second: float = 1e9
    piece_seconds: float = 0.0
    window_bytes: int = 256 * 1024
    bytes_scale: float = 1.0

    def size(self, data: bytes) -> float:
        """How many bytes of the model a piece has."""
        return len(data) + max(len(data) - PLAIN_BYTES, 0) * (self.bytes_scale - 1)


class WireWrite(NamedTuple):
    """A single write: its place on its wire, the bytes, and the effect of their arrival."""

    number: int
    data: bytes
    then: Callable[[], object] | None


class SimulatedWire:
    """One direction of one connection."""

    def __init__(self, network: Network, source: str, target: str, number: int) -> None:
        self.network = network
        self.direction: Direction = (source, target)
        self.key: Final = (source, target, number)
        self.name: Final = f"{source}>{target}#{number}"
        self.chance: Final = generator(network.seed, self.name)
        #: When the last piece arrives: nothing overtakes it.
        self.last_arrival = self.last_delivery = 0.0
        #: Pieces put on it, and things that were to happen at its end: both only to order them.
        self.sequence = 0
        self.order = 0
        #: What is to be done with what arrives, set by the stream at the other end.
        self.arrived: Callable[[bytes], object] = lambda data: None
        #: What stands before a blocked direction.
        self.held: list[WireWrite] = []


class NetworkInterface:
    """The stages that a host's pieces pass one after another, and until when each is busy."""

    __slots__ = ("processor_until", "receiving_until", "sending_until")

    def __init__(self) -> None:
        self.processor_until = self.sending_until = self.receiving_until = 0.0


class Network:
    """All wires of a simulation, and the one task that moves what is on them.

    seed    what the delays are drawn from
    """

    def __init__(self, seed: object, log: EventLog, model: LinkModel | None = None) -> None:
        self.seed = seed
        self.log = log
        self.model = model if model is not None else LinkModel()
        #: Other costs of some directions.
        self.models: dict[Direction, LinkModel] = {}
        #: Within a host.
        self.loopback = LinkModel(5e-6, 0.0, bytes_per_second=0.0, piece_seconds=self.model.piece_seconds)
        #: Directions in which nothing passes now.
        self.blocked: Counter[Direction] = Counter()
        #: Whether every piece that arrives is logged.
        self.logs_pieces = True
        self.pieces = 0
        self.bytes = 0
        self._interfaces: dict[str, NetworkInterface] = {}
        self._numbers: dict[Direction, int] = {}
        self._wires: dict[tuple[str, str, int], SimulatedWire] = {}
        self._outgoing: list[tuple[SimulatedWire, WireWrite]] = []
        self._due: list[tuple[float, tuple[str, str, int], int, Callable[[], object]]] = []
        self._wake = trio.lowlevel.ParkingLot()
        self._brought = trio.lowlevel.ParkingLot()
        self._awaited = -1

    # -- wires --------------------------------------------------------------------------------------

    def new_wires(self, source: str, target: str) -> tuple[SimulatedWire, SimulatedWire]:
        """Both directions of another connection: the dialler's first."""
        number = self._numbers[source, target] = self._numbers.get((source, target), 0) + 1
        there = SimulatedWire(self, source, target, number)
        back = SimulatedWire(self, target, source, -number)
        self._wires[there.key], self._wires[back.key] = there, back
        return there, back

    def forget(self, wire: SimulatedWire) -> None:
        """Nothing more will be put on this wire."""
        self._wires.pop(wire.key, None)

    def wires(self, source: str, target: str) -> list[SimulatedWire]:
        """The wires in one direction that live."""
        return [wire for wire in self._wires.values() if wire.direction == (source, target)]

    def model_of(self, direction: Direction) -> LinkModel:
        if direction[0] == direction[1]:
            return self.loopback
        return self.models.get(direction, self.model)

    def latency(self, direction: Direction, chance: random.Random) -> float:
        """One way, this time."""
        model = self.model_of(direction)
        seconds = model.latency_seconds + chance.random() * model.jitter_seconds
        if model.stray_share and chance.random() < model.stray_share:
            seconds += chance.random() * model.stray_seconds
        return seconds

    def put(self, wire: SimulatedWire, data: bytes, then: Callable[[], object] | None = None) -> None:
        """Send bytes, or with `then` something that follows them and happens where they arrive."""
        wire.sequence += 1
        self._outgoing.append((wire, WireWrite(wire.sequence, data, then)))
        self._wake.unpark()

    def interface(self, host: str) -> NetworkInterface:
        found = self._interfaces.get(host)
        if found is None:
            found = self._interfaces[host] = NetworkInterface()
        return found

    # -- faults -------------------------------------------------------------------------------------

    def block(self, *directions: Direction) -> None:
        """Nothing passes in these directions until `unblock`; senders do not notice."""
        self.blocked.update(directions)

    def unblock(self, *directions: Direction) -> None:
        """Undo one `block`; where no other is left, what was held back is sent again now."""
        self.blocked.subtract(directions)
        self.blocked += Counter()  # leaves out what is at 0
        opened = {direction for direction in directions if direction not in self.blocked}
        for wire in list(self._wires.values()):
            if wire.direction in opened and wire.held:
                # What was under way when the direction was blocked came to stand behind what was sent since.
                held, wire.held = sorted(wire.held, key=lambda piece: piece.number), []
                self._outgoing += [(wire, piece) for piece in held]
        self._wake.unpark()

    async def wait_pieces(self, count: int) -> None:
        """Return when so many more pieces have been brought. For one task at a time."""
        if count > 0:
            self._awaited = self.pieces + count
            await self._brought.park()

    # -- moving -------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Move everything, until cancelled."""
        while True:
            self._take_outgoing()
            now = trio.current_time()
            while self._due and self._due[0][0] <= now:
                heappop(self._due)[3]()
            if self._outgoing:
                # What came of it is sent together with what other tasks send now.
                await trio.lowlevel.checkpoint()
                continue
            with trio.move_on_at(self._due[0][0] if self._due else math.inf):
                await self._wake.park()

    def _take_outgoing(self) -> None:
        outgoing, self._outgoing = self._outgoing, []
        outgoing.sort(key=lambda each: each[0].key)
        for wire, piece in outgoing:
            if wire.direction in self.blocked or wire.held:
                wire.held.append(piece)
            else:
                self._send(wire, piece)

    def _send(self, wire: SimulatedWire, piece: WireWrite) -> None:
        model = self.model_of(wire.direction)
        size = model.size(piece.data)
        begun = now = trio.current_time()
        sender = self.interface(wire.direction[0])
        if model.piece_seconds and piece.data:
            begun = sender.processor_until = max(now, sender.processor_until) + model.piece_seconds
        seconds = size / model.bytes_per_second if model.bytes_per_second else 0.0
        if size > SMALL_BYTES:
            begun = max(begun, sender.sending_until)
            sender.sending_until = begun + seconds
        arrival = begun + self.latency(wire.direction, wire.chance)
        arrival = wire.last_arrival = max(arrival, wire.last_arrival)
        # The last bit leaves so much after the first one.
        self._at(arrival, wire, lambda: self._reach(wire, piece, seconds))

    def _reach(self, wire: SimulatedWire, piece: WireWrite, seconds: float) -> None:
        """The first bit is at the receiver, the last one `seconds` later or when there is room for it."""
        if wire.direction in self.blocked or wire.held:
            wire.held.append(piece)
            return
        model = self.model_of(wire.direction)
        receiver = self.interface(wire.direction[1])
        done = trio.current_time() + seconds
        if model.size(piece.data) > SMALL_BYTES:
            done = receiver.receiving_until = max(trio.current_time(), receiver.receiving_until) + seconds
        if model.piece_seconds and piece.data:
            done = receiver.processor_until = max(done, receiver.processor_until) + model.piece_seconds
        done = wire.last_delivery = max(done, wire.last_delivery)
        if done > trio.current_time():
            self._at(done, wire, lambda: self._deliver(wire, piece))
        else:
            self._deliver(wire, piece)

    def _deliver(self, wire: SimulatedWire, piece: WireWrite) -> None:
        self.pieces += 1
        if self.pieces == self._awaited:
            self._brought.unpark_all()
        self.bytes += len(piece.data)
        if piece.data:
            if self.logs_pieces:
                self.log.add(wire.name, f"brings {len(piece.data)} bytes")
            wire.arrived(piece.data)
        if piece.then is not None:
            piece.then()

    def _at(self, seconds: float, wire: SimulatedWire, then: Callable[[], object]) -> None:
        wire.order += 1
        heappush(self._due, (seconds, wire.key, wire.order, then))
        self._wake.unpark()


__all__ = ["Direction", "LinkModel", "Network", "NetworkInterface", "SimulatedWire", "WireWrite"]
