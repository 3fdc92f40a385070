"""Clusters under TLS: their own authority, both sides checked, the key proved inside, no way around it."""

from __future__ import annotations

import datetime
import os
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

import flowengine as fe
from flowengine.cli.main import main
from flowengine.cluster.certificates import certificates_in
from flowengine.cluster.cluster_files import found_cluster
from flowengine.cluster.console import open_console
from flowengine.cluster.local import free_ports, target_of
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.files.secrets import read_secret
from flowengine.transport.wire.identity import new_key

pytest.importorskip("cryptography")

from flowengine.cluster.authority import Authority, found_authority, renew_certificates

HOST = "127.0.0.1"


def found(folder: Path, *, tls: bool = True, **jobs: int) -> ClusterSpec:
    """A new cluster of this machine, in a folder."""
    ports = free_ports(sum(jobs.values()))
    addresses = {job: [f"{HOST}:{ports.pop()}" for _ in range(count)] for job, count in jobs.items()}
    return ClusterSpec.from_toml(found_cluster(folder, addresses, name="veiled", tls=tls))


@asynccontextmanager
async def served(spec: ClusterSpec, **more: Any) -> AsyncIterator[None]:
    """All tasks of a cluster, in this program."""
    async with AsyncExitStack() as stack:
        for job, tasks in spec.jobs.items():
            for task in tasks:
                await stack.enter_async_context(fe.Server(spec, job, task, **more))
        yield


def graph() -> fe.Graph:
    """x + w, where w lies at the parameter server and the sum is made at the worker."""
    g = fe.Graph()
    with g.device("/job:ps/task:0"):
        w = g.ops.VariableV2(shape=[3], dtype="float64", name="salary_of_the_chief")
        g.ops.Assign(w, g.constant(NUMBERS, name="start"), name="init")
    with g.device("/job:worker/task:0"):
        x = g.placeholder("float64", [3], name="x")
        g.ops.Add(w, x, name="sum")
        g.ops.Add(x, x, name="twice")
    return g


NUMBERS = np.array([12345.678901, -98765.4321, 3.14159265358979])


async def ask(target: str) -> np.ndarray[Any, Any]:
    async with fe.Session(graph(), target=target) as session:
        await session.run([], targets=["init"])
        return np.asarray(await session.run("sum:0", {"x:0": NUMBERS * 3}))


async def test_a_session_and_its_tasks_speak_under_tls(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", ps=1, worker=1)
    target = target_of(spec, "/job:worker/task:0")
    assert target.startswith("flow+tls://")
    async with served(spec):
        np.testing.assert_array_equal(await ask(f"{target}&client=me"), NUMBERS * 4)
        async with open_console(spec) as console:
            assert (await console.status("/job:ps/task:0"))["address"].startswith("tls://")


async def test_steps_are_traced_and_guarded_under_tls(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", ps=1, worker=1)
    target = f"{target_of(spec, '/job:worker/task:0')}&client=me"
    async with served(spec), fe.Session(graph(), target=target) as session:
        await session.run([], targets=["init"])
        metadata, options = fe.RunMetadata(), fe.RunOptions(trace="nodes")
        value = await session.run("sum:0", {"x:0": NUMBERS}, options=options, run_metadata=metadata)
        np.testing.assert_array_equal(value, NUMBERS * 2)
        assert {part.outcome for part in metadata.traced_tasks.values()} == {"ended"}
        assert sum(1 for event in metadata.events if event.kind == "recv") == 1
        infinite = {"x:0": np.full(3, -1.7e308)}
        assert not np.isfinite(await session.run("twice:0", infinite)).any()
        with pytest.raises(fe.errors.InvalidArgumentError, match="guard: output 0 has 0 NaN and 3 inf"):
            await session.run("twice:0", infinite, options=fe.RunOptions(guard=True))


@pytest.mark.parametrize("tls", [True, False])
async def test_whoever_listens_on_the_way_learns_nothing(tmp_path: Path, tls: bool) -> None:
    """Between client and master, and between the tasks. Without TLS he learns all: the test can fail."""
    spec = found(tmp_path / "c", tls=tls, ps=1, worker=1)
    async with trio.open_nursery() as nursery:
        overheard = bytearray()
        listened = spec
        for task, address in spec.tasks.items():
            port = await nursery.start(_pass_on, address, overheard)
            listened = listened.with_address(task, f"{HOST}:{port}")
        async with AsyncExitStack() as stack:
            for task in ("ps", "worker"):
                # Each task knows the other at the listener's address.
                name = f"/job:{task}/task:0"
                own = listened.with_address(name, spec.address(name))
                await stack.enter_async_context(fe.Server(own, task, 0))
            target = target_of(listened, "/job:worker/task:0")
            np.testing.assert_array_equal(await ask(f"{target}&client=me"), NUMBERS * 4)
        nursery.cancel_scope.cancel()
    assert len(overheard) > 3000
    secrets = [b"salary_of_the_chief", b"veiled", b"/job:worker", b"sum"]
    secrets += [number.tobytes() for factor in (1, 3, 4) for number in NUMBERS * factor]
    assert [each in overheard for each in secrets] == [not tls] * len(secrets)


async def _pass_on(
    address: str, overheard: bytearray, *, task_status: trio.TaskStatus[int] = trio.TASK_STATUS_IGNORED
) -> None:
    async def one_way(source: trio.SocketStream, sink: trio.SocketStream) -> None:
        async for data in source:
            overheard.extend(data)
            await sink.send_all(data)
        await sink.send_eof()

    async def serve(near: trio.SocketStream) -> None:
        host, _, port = address.rpartition(":")
        async with await trio.open_tcp_stream(host, int(port)) as far, trio.open_nursery() as nursery:
            nursery.start_soon(one_way, near, far)
            nursery.start_soon(one_way, far, near)

    (listener,) = await trio.open_tcp_listeners(0, host=HOST)
    task_status.started(listener.socket.getsockname()[1])
    await trio.serve_listeners(serve, [listener])


async def test_the_key_is_proved_under_tls_too(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", ps=1, worker=1)
    async with served(spec):
        with pytest.raises(fe.errors.UnauthenticatedError, match="have different keys"):
            async with open_console(spec, key=new_key()) as console:
                await console.status("/job:ps/task:0")


async def test_a_cluster_with_tls_and_one_without_say_so(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", ps=1, worker=1)
    plain = ClusterSpec(spec.jobs, spec.name, spec.key_file)
    async with served(spec):
        target = target_of(plain, "/job:worker/task:0")
        assert target.startswith("flow://")
        with pytest.raises(fe.errors.UnavailableError, match=r"speaks TLS.*target begins with flow\+tls://"):
            await ask(f"{target}&client=me")
    async with served(plain):
        target = target_of(spec, "/job:worker/task:0")
        with pytest.raises(fe.errors.UnavailableError, match=r"does not speak TLS: reach it as flow://"):
            await ask(f"{target}&client=me")
        np.testing.assert_array_equal(await ask(f"{target_of(plain, '/job:worker/task:0')}"), NUMBERS * 4)
    with pytest.raises(fe.errors.InvalidArgumentError, match=r"without TLS: write flow\+tls://h:1"):
        fe.Session(graph(), target="flow://h:1?tls=here")


async def test_strangers_names_and_clients_are_no_tasks(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = found(tmp_path / "c", ps=1, worker=1)
    other = found(tmp_path / "other", ps=1, worker=1)
    target = target_of(spec, "/job:worker/task:0")
    async with served(spec):
        # Another authority's.
        strange = target.replace(spec.tls, other.tls)
        with pytest.raises(fe.errors.UnauthenticatedError, match="self-signed certificate in"):
            await ask(f"{strange}&client=me")
        # Another name than the certificate's, if the same machine.
        with pytest.raises(fe.errors.UnauthenticatedError, match=r"[Hh]ostname mismatch.*was dialled"):
            await ask(f"{target.replace(HOST, 'localhost')}&client=me")
    # A client's certificate holds for no listener.
    client = certificates_in(spec.tls, "client")
    async with served(spec, security=client):
        with pytest.raises(fe.errors.UnauthenticatedError, match="unsuitable certificate purpose"):
            await ask(f"{target}&client=me")


def test_the_authorities_of_the_system_are_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, other = found(tmp_path / "c", worker=1), found(tmp_path / "other", worker=1)
    monkeypatch.setenv("SSL_CERT_FILE", str(Path(other.tls, "authority.pem")))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "secrets"))
    certificates = certificates_in(spec.tls, "worker-0")
    for context in (certificates.connecting(), certificates.listening()):
        (authority,) = context.get_ca_certs()
        assert dict(each[0] for each in authority["subject"])["commonName"] == "authority of veiled"  # type: ignore[misc]
        assert context.verify_mode is ssl.CERT_REQUIRED
        assert context.minimum_version is ssl.TLSVersion.TLSv1_3
        assert not context.keylog_filename
    assert certificates.connecting().check_hostname


async def test_renewed_certificates_are_used_for_new_connections(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now = datetime.datetime.now(datetime.UTC)
    spec = found(tmp_path / "c", worker=1)
    tls = Path(spec.tls)
    renew_certificates(tls, spec, now=now - datetime.timedelta(days=340))
    async with served(spec), open_console(spec) as console:
        task = "/job:worker/task:0"
        assert "worker-0.pem ends at" in caplog.text
        await console.status(task)
        first = await _shown(spec, task)
        renew_certificates(tls, spec, ["second"])
        caplog.clear()
        assert await _shown(spec, task) != first
        # What is there goes on, and half a file harms nobody.
        await console.status(task)
        (tls / "worker-0.pem").write_text("-----BEGIN")
        assert await _shown(spec, task) not in (first, b"")
        assert caplog.text.count("the former certificates stay in use") == 1
    assert (tls / "second.pem").stat().st_mode & 0o777 == 0o600


async def _shown(spec: ClusterSpec, task: str) -> bytes:
    """The certificate that a task shows now."""
    host, _, port = spec.address(task).rpartition(":")
    context = certificates_in(spec.tls, "client").connecting()
    stream = trio.SSLStream(await trio.open_tcp_stream(host, int(port)), context, server_hostname=host)
    await stream.do_handshake()
    shown: bytes = stream.getpeercert(binary_form=True)
    await trio.aclose_forcefully(stream)
    return shown


def test_what_has_ended_says_how_to_go_on(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", worker=1)
    past = datetime.datetime.now(datetime.UTC) - datetime.timedelta(days=366)
    renew_certificates(Path(spec.tls), spec, now=past)
    with pytest.raises(
        fe.errors.InvalidArgumentError, match="has expired; `flowengine cluster new FOLDER --renew`"
    ):
        certificates_in(spec.tls, "worker-0").listening()
    renew_certificates(Path(spec.tls), spec)
    certificates_in(spec.tls, "worker-0").listening()


def test_an_authority_near_its_end_is_renewed_with_the_same_key(tmp_path: Path) -> None:
    spec = found(tmp_path / "c", worker=1)
    tls = Path(spec.tls)
    former = (tls / "authority.pem").read_bytes()
    renew_certificates(tls, spec)
    assert (tls / "authority.pem").read_bytes() == former
    two_years_left = datetime.datetime.now(datetime.UTC) + datetime.timedelta(days=8 * 365)
    renew_certificates(tls, spec, now=two_years_left - datetime.timedelta(days=1))
    assert (tls / "authority.pem").read_bytes() == former
    later = two_years_left + datetime.timedelta(days=1)
    key = (tls / "authority.key").read_bytes()
    authority = Authority.read(tls, spec.name, now=later)
    assert authority.key_pem() == key
    renew_certificates(tls, spec, now=later)
    assert (tls / "authority.pem").read_bytes() != former


@pytest.mark.skipif(os.name != "posix", reason="owners and modes are POSIX's")
def test_secrets_of_others_are_refused_with_what_mends_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = found(tmp_path / "c", worker=1)
    key = Path(spec.key_file)
    for path in (tmp_path / "c", Path(spec.tls)):
        assert path.stat().st_mode & 0o777 == 0o700
    names = sorted(each.name for each in Path(spec.tls).iterdir())
    assert names == ["authority.key", "authority.pem", "client.pem", "worker-0.pem"]
    for name in names:
        mode = (Path(spec.tls) / name).stat().st_mode & 0o777
        assert mode == (0o644 if name == "authority.pem" else 0o600)
    for path, mends in (
        (key, lambda: fe.Server(spec, "worker", 0)),
        (Path(spec.tls, "worker-0.pem"), lambda: certificates_in(spec.tls, "worker-0").listening()),
        (Path(spec.tls, "authority.key"), lambda: renew_certificates(Path(spec.tls), spec)),
    ):
        mends()
        path.chmod(0o640)
        with pytest.raises(fe.errors.PermissionDeniedError, match=f"chmod 600 {path}"):
            mends()
        path.chmod(0o600)
        path.parent.chmod(0o770)
        with pytest.raises(fe.errors.PermissionDeniedError, match=f"chmod 700 {path.parent}"):
            mends()
        path.parent.chmod(0o700)
    if os.geteuid() == 0:
        os.chown(key, 4242, -1)
        me = 0
    else:
        me = os.geteuid() + 1
        monkeypatch.setattr(os, "geteuid", lambda: me)
    with pytest.raises(fe.errors.PermissionDeniedError, match=f"chown {me} {key}"):
        read_secret(key)


def test_nothing_is_overwritten_and_nothing_is_left_half_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "c"
    make = ["cluster", "new", str(folder), "--job", "worker=localhost:7000", "--tls", "--client"]
    assert main([*make, "wrong-name"]) == 1
    assert "is no name for a client" in capsys.readouterr().err
    assert list(folder.iterdir()) == []
    assert main([*make, "alice", "--client", "bob"]) == 0
    before = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert {path.name for path in before} >= {"alice.pem", "bob.pem", "worker-0.pem"}
    assert main([*make, "alice"]) == 1
    assert "are there already" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    # But certificates are, when that is asked for.
    assert main(["cluster", "new", str(folder), "--renew"]) == 0
    changed = {path.name for path, data in before.items() if path.read_bytes() != data}
    assert changed == {"alice.pem", "bob.pem", "worker-0.pem"}
    assert main(["cluster", "new", str(folder), "--renew", "--tls"]) == 2
    spec = ClusterSpec.from_toml(folder / "cluster.toml")
    with pytest.raises(fe.errors.AlreadyExistsError):
        found_authority(Path(spec.tls), spec, [])
    assert main(["cluster", "new", str(tmp_path / "plain"), "--job", "worker=localhost:7000"]) == 0
    assert main(["cluster", "new", str(tmp_path / "plain"), "--renew"]) == 2
    assert "has no TLS" in capsys.readouterr().err
