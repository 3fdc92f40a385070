"""Every kind of stream keeps what a byte stream promises; addresses and their faults."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tracemalloc
from collections.abc import Awaitable, Callable, Iterable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import trio
import trio.testing

from flowengine.core.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnauthenticatedError,
    UnavailableError,
)
from flowengine.testing.streams import check_byte_stream, receive_exactly
from flowengine.transport.dialling import connect
from flowengine.transport.peer import Reply, Service
from flowengine.transport.server import listen, serve
from flowengine.transport.streams.certificates import Certificates
from flowengine.transport.streams.inproc import stream_pair
from flowengine.transport.streams.schemes import (
    ByteStream,
    connect_stream,
    host_and_port,
    is_within_machine,
    listen_streams,
    wait_spoken,
)
from flowengine.transport.streams.tcp import TcpListener, TcpStream
from tests.tools.links import KEY, faulty_pair, identity

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


async def tcp_pair() -> tuple[ByteStream, ByteStream]:
    listener = await listen_streams("tcp://127.0.0.1:0")
    near = await connect_stream(listener.address)
    far = await listener.accept()
    listener.close()
    return near, far


async def small_inproc_pair() -> tuple[ByteStream, ByteStream]:
    return stream_pair(capacity_bytes=1000)


async def inproc_pair() -> tuple[ByteStream, ByteStream]:
    listener = await listen_streams("inproc://check")
    near = await connect_stream("inproc://check")
    far = await listener.accept()
    listener.close()
    return near, far


async def pieces_pair() -> tuple[ByteStream, ByteStream]:
    return faulty_pair(seed=3, piece_bytes_max=70_000)


@pytest.mark.parametrize("make_pair", [tcp_pair, inproc_pair, small_inproc_pair, pieces_pair])
async def test_a_stream_keeps_its_promises(
    make_pair: Callable[[], Awaitable[tuple[ByteStream, ByteStream]]],
) -> None:
    await check_byte_stream(make_pair)


@pytest.mark.parametrize("make_pair", [tcp_pair, inproc_pair])
async def test_whoever_waits_for_the_first_bytes_is_told_of_a_closed_stream(
    make_pair: Callable[[], Awaitable[tuple[ByteStream, ByteStream]]],
) -> None:
    near, far = await make_pair()

    async def wait() -> None:
        with pytest.raises(FailedPreconditionError, match="closed"):
            await wait_spoken(near)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        near.close()
    with pytest.raises(FailedPreconditionError, match="closed"):
        await wait_spoken(near)
    far.close()


class _Elsewhere(socket.socket):
    """A socket whose other end has another machine's address."""

    def getpeername(self) -> tuple[str, int]:
        return "192.0.2.1", 7000


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_what_is_on_its_way_is_bounded_within_a_machine(host: str) -> None:
    """And to another one it is as much as the link takes."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        listener = socket.create_server((host, 0), family=family)
    except OSError:
        pytest.skip(f"this machine does not listen at {host}")

    def connected(kind: type[socket.socket]) -> socket.socket:
        near = kind(family)
        near.connect(listener.getsockname()[:2])
        return near

    def room(of: socket.socket) -> int:
        return of.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)

    kinds: list[type[socket.socket]] = [socket.socket, socket.socket, _Elsewhere]
    with listener, ExitStack() as stack:
        plain, near, elsewhere = (stack.enter_context(connected(kind)) for kind in kinds)
        streams = [TcpStream(each, "tcp://somewhere:1") for each in (near, elsewhere)]
        assert [is_within_machine(each) for each in streams] == [True, False]
        assert room(near) != room(plain)
        assert room(near) <= 1 << 20
        assert room(elsewhere) == room(plain)


class _Counting(socket.socket):
    """Counts how often it was asked to send."""

    attempts = 0

    def send(self, data: ReadableBuffer, flags: int = 0, /) -> int:
        self.attempts += 1
        return super().send(data, flags)

    def sendmsg(self, buffers: Iterable[ReadableBuffer], *rest: Any) -> int:
        self.attempts += 1
        return super().sendmsg(buffers, *rest)


@pytest.mark.parametrize("parts", [1, 3])
async def test_after_a_part_it_waits_instead_of_trying(parts: int) -> None:
    """Until the other end has read; and what is sent whole is followed at once."""
    listener = await listen_streams("tcp://127.0.0.1:0")
    with socket.create_connection(host_and_port(listener.address)) as bare:
        connected = _Counting(fileno=bare.detach())
    near, far = TcpStream(connected, "tcp://far:1"), await listener.accept()
    listener.close()
    much: list[memoryview | bytes] = [memoryview(bytes(20 << 20))] * parts
    with trio.testing.assert_no_checkpoints():
        sent = await near.send_some(much)
    assert 0 < sent < 20 << 20
    # While nobody reads, the system may still take a little more; then it takes nothing.
    with trio.CancelScope() as scope:
        while True:
            before = connected.attempts
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_cancel_when_blocked, scope)
                with trio.testing.assert_checkpoints():
                    sent += await near.send_some(much)
                nursery.cancel_scope.cancel()
            assert connected.attempts == before + 1
    assert connected.attempts == before
    assert len(await receive_exactly(far, sent)) == sent
    with trio.testing.assert_checkpoints():
        assert await near.send_some([b"x"] * parts) == parts
    with trio.testing.assert_no_checkpoints():
        assert await near.send_some([b"y"]) == 1
    await near.send_some(much)
    near.close()
    with pytest.raises(FailedPreconditionError, match="is closed"):
        await near.send_some([b"x"])
    far.close()


async def _cancel_when_blocked(scope: trio.CancelScope) -> None:
    await trio.testing.wait_all_tasks_blocked(0.05)
    scope.cancel()


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Certificates]:
    """Makes certificates: by name of the authority that signs them."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("certificates for the test are made with openssl, which is not here")
    folder = tmp_path_factory.mktemp("certificates")

    def run(*arguments: str) -> None:
        subprocess.run([openssl, *arguments], cwd=folder, check=True, capture_output=True)

    def make(name: str) -> Certificates:
        if not (folder / f"{name}.pem").exists():
            new_key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
            run("req", "-x509", *new_key, "-keyout", f"{name}-ca.key", "-out", f"{name}-ca.pem",
                "-days", "90", "-subj", f"/CN={name} authority")  # fmt: skip
            run("req", *new_key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            Path(folder / "san").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
            run("x509", "-req", "-in", f"{name}.csr", "-CA", f"{name}-ca.pem", "-CAkey", f"{name}-ca.key",
                "-CAcreateserial", "-out", f"{name}.pem", "-days", "90", "-extfile", "san")  # fmt: skip
        return Certificates(folder / f"{name}.pem", folder / f"{name}.key", folder / f"{name}-ca.pem")

    return make


def _believing_both(ours: Certificates, theirs: Certificates) -> Certificates:
    """Theirs, but they believe us, too."""
    both = Path(theirs.authority).with_name("both.pem")
    both.write_bytes(Path(ours.authority).read_bytes() + Path(theirs.authority).read_bytes())
    return Certificates(theirs.certificate, theirs.private_key, both)


async def test_tls_keeps_its_promises(authority: Callable[[str], Certificates]) -> None:
    certificates = authority("ours")

    async def tls_pair() -> tuple[ByteStream, ByteStream]:
        listener = await listen_streams("tls://127.0.0.1:0", certificates)
        ends: list[ByteStream] = []

        async def accept() -> None:
            far = await listener.accept()
            # The server's half of the handshake runs where its bytes are read.
            assert await far.receive_into([memoryview(bytearray(1))]) == 1
            ends.append(far)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept)
            near = await connect_stream(listener.address, certificates)
            await near.send_some([b"x"])
        listener.close()
        return near, ends[0]

    await check_byte_stream(tls_pair)


async def test_what_comes_under_tls_takes_as_much_as_it_is_long(
    authority: Callable[[str], Certificates],
) -> None:
    """Room for a whole record, cut down to a few bytes each time, leaves holes in the memory of a process."""
    certificates = authority("ours")
    listener = await listen_streams("tls://127.0.0.1:0", certificates)
    message, room = bytes(100), memoryview(bytearray(100))

    async def answer() -> None:
        far = await listener.accept()
        place = memoryview(bytearray(100))
        try:
            while count := await far.receive_into([place]):
                await far.send_some([place[:count]])
        finally:
            far.close()

    async def ask(near: ByteStream, times: int) -> None:
        for _ in range(times):
            await near.send_some([message])
            assert await near.receive_into([room]) == 100

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer)
        near = await connect_stream(listener.address, certificates)
        await ask(near, 5)
        tracemalloc.start()
        try:
            await ask(near, 5)
            before = tracemalloc.get_traced_memory()[0]
            tracemalloc.reset_peak()
            await ask(near, 20)
            peak = tracemalloc.get_traced_memory()[1] - before
        finally:
            tracemalloc.stop()
        nursery.cancel_scope.cancel()
    near.close()
    listener.close()
    assert peak < 12 * 1024


async def test_a_foreign_certificate_is_refused_on_either_side(
    authority: Callable[[str], Certificates],
) -> None:
    ours, theirs = authority("ours"), authority("theirs")
    mixed = _believing_both(ours, theirs)
    listener = await listen_streams("tls://127.0.0.1:0", ours)
    errors: list[BaseException] = []

    async def accept() -> None:
        far = await listener.accept()
        try:
            await far.receive_into([memoryview(bytearray(1))])
        except (UnauthenticatedError, UnavailableError) as error:
            errors.append(error)
        far.close()

    # The dialler does not trust the listener's authority.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        with pytest.raises(UnauthenticatedError, match=r"certificate of tls://127\.0\.0\.1"):
            await connect_stream(listener.address, theirs)
    # The listener does not trust the dialler's: TLS 1.3 tells the dialler with its first bytes.
    async with trio.open_nursery() as nursery:
        nursery.start_soon(accept)
        near = await connect_stream(listener.address, mixed)
        with pytest.raises(UnauthenticatedError, match="is this side's certificate signed"):
            await near.receive_into([memoryview(bytearray(1))])
        near.close()
    assert len(errors) == 1
    listener.close()


async def test_tls_and_plain_bytes_do_not_mix(authority: Callable[[str], Certificates]) -> None:
    listener = await listen_streams("tcp://127.0.0.1:0")

    async def answer_plainly() -> None:
        far = await listener.accept()
        await far.receive_into([memoryview(bytearray(1000))])
        await far.send_some([b"FE this is no TLS record at all"])
        far.close()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(answer_plainly)
        with pytest.raises(UnavailableError, match="does not speak TLS"):
            await connect_stream(listener.address.replace("tcp", "tls"), authority("ours"))
    listener.close()


async def test_tls_needs_certificates(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="needs certificates"):
        await connect_stream("tls://127.0.0.1:1")
    absent = Certificates(tmp_path / "a", tmp_path / "b", tmp_path / "c")
    with pytest.raises(InvalidArgumentError, match="cannot be used"):
        await listen_streams("tls://127.0.0.1:0", absent)


@pytest.mark.parametrize(
    "address", ["", "127.0.0.1:7000", "udp://127.0.0.1:7000", "tcp://", "tcp://host", "tcp://h:x", "tcp://::1:7",
                "tcp://h:70000", "tcp://:7"]
)  # fmt: skip
async def test_an_address_that_cannot_be_read_says_so(address: str) -> None:
    with pytest.raises(InvalidArgumentError):
        await connect_stream(address)


def test_addresses() -> None:
    assert host_and_port("tcp://127.0.0.1:7000") == ("127.0.0.1", 7000)
    assert host_and_port("tcp://[::1]:7000") == ("::1", 7000)


async def test_nobody_there() -> None:
    listener = await listen_streams("tcp://127.0.0.1:0")
    with pytest.raises(UnavailableError, match="cannot listen"):
        await listen_streams(listener.address)
    listener.close()
    with pytest.raises(FailedPreconditionError, match="is closed"):
        await listener.accept()
    with pytest.raises(UnavailableError, match=r"no server answers at .*refused"):
        await connect_stream(listener.address)
    with pytest.raises(UnavailableError, match="no server listens"):
        await connect_stream("inproc://nobody")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_who_waits_for_a_stream_is_told_that_nobody_listens_any_more(host: str) -> None:
    listener = await listen_streams(f"tcp://{host}:0")
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            with pytest.raises(FailedPreconditionError, match="is closed"):
                await listener.accept()

        nursery.start_soon(wait)
        await trio.testing.wait_all_tasks_blocked()
        listener.close()


async def at_two_addresses() -> tuple[TcpListener, list[str]]:
    """A listener with two sockets, and what to dial for each."""
    sockets = [trio.socket.socket() for _ in range(2)]
    for each, host in zip(sockets, ("127.0.0.1", "127.0.0.2"), strict=True):
        await each.bind((host, 0))
        each.listen()
    addresses = ["tcp://{}:{}".format(*each.getsockname()) for each in sockets]
    return TcpListener([trio.SocketListener(each) for each in sockets], "tcp://two:0"), addresses


async def test_whichever_address_is_dialled_is_accepted() -> None:
    """A name may stand for several addresses of the machine, with a socket for each."""
    listener, addresses = await at_two_addresses()
    for address in (*addresses, *reversed(addresses)):
        near = await connect_stream(address)
        far = await listener.accept()
        assert isinstance(near, TcpStream)
        assert far.address == "tcp://{}:{}".format(*near._socket.getsockname())
        near.close()
        far.close()
    # Two at once, and one who stops waiting: nobody is lost.
    with trio.CancelScope() as scope:
        scope.cancel()
        await listener.accept()
    near, other = [await connect_stream(address) for address in addresses]
    found = [await listener.accept() for _ in addresses]
    assert len({each.address for each in found}) == 2
    left = [await connect_stream(address) for address in addresses]
    found.append(await listener.accept())
    for each in (near, other, *left, *found):
        each.close()
    listener.close()


async def test_a_listener_at_several_addresses_that_is_closed_or_broken_says_so() -> None:
    for breaks in (False, True):
        listener, _ = await at_two_addresses()
        async with trio.open_nursery() as nursery:

            async def wait(listener: TcpListener = listener, breaks: bool = breaks) -> None:
                with pytest.raises(FailedPreconditionError, match=r"broke" if breaks else r"is closed"):
                    await listener.accept()

            nursery.start_soon(wait)
            await trio.testing.wait_all_tasks_blocked()
            if breaks:
                listener._listeners[1].socket.shutdown(socket.SHUT_RDWR)
            else:
                listener.close()
        listener.close()


async def test_a_name_in_this_process_is_taken_once() -> None:
    listener = await listen_streams("inproc://once")
    with pytest.raises(UnavailableError, match="another server already does"):
        await listen_streams("inproc://once")
    near = await connect_stream("inproc://once")
    listener.close()
    assert await near.receive_into([memoryview(bytearray(1))]) == 0
    (await listen_streams("inproc://once")).close()
    with pytest.raises(InvalidArgumentError, match="has no name"):
        await listen_streams("inproc://")


async def test_peers_over_tls_need_no_key(authority: Callable[[str], Certificates]) -> None:
    certificates = authority("ours")
    listener = await listen("tls://127.0.0.1:0", security=certificates)
    service = Service({"echo": lambda request: Reply(request.arguments, request.tensors)})
    async with trio.open_nursery() as nursery:
        run = partial(serve, listener, identity=identity("/job:s/task:0"), service=service)
        address = await nursery.start(run)
        who = identity("/job:c/task:0")
        peer = await connect(nursery, address, identity=who, security=certificates)
        array = np.arange(300_000, dtype=np.float32)
        for number in range(3):
            reply = await peer.call("echo", number, [array, b"text"])
            assert np.array_equal(reply.tensors[0], array)
        assert peer.statistics().bytes_copied_to_receive > array.nbytes
        # Silence, nonsense and a foreign certificate hold up nobody.
        silent = await connect_stream(address.replace("tls", "tcp"))
        mixed = _believing_both(certificates, authority("theirs"))
        with pytest.raises(UnauthenticatedError, match="is this side's certificate signed"):
            await connect(nursery, address, identity=who, security=mixed)
        with pytest.raises(UnauthenticatedError, match="have different keys"):
            await connect(nursery, address, identity=who, security=certificates, key=KEY)
        assert (await peer.call("echo", 9)).result == 9
        silent.close()
        await peer.aclose()
        nursery.cancel_scope.cancel()
