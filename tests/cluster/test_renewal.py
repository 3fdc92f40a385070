"""Renewing takes in every client that has a certificate, and leaves what no client has."""

from __future__ import annotations

from pathlib import Path

import pytest

from flowengine.cluster.cluster_files import found_cluster
from flowengine.cluster.local import free_ports
from flowengine.cluster.spec import ClusterSpec
from flowengine.core.errors import NotFoundError

pytest.importorskip("cryptography")

from flowengine.cluster.authority import renew_certificates


def test_clients_that_are_there_are_renewed_and_former_tasks_are_not(tmp_path: Path) -> None:
    addresses = {"worker": [f"127.0.0.1:{free_ports(1)[0]}"]}
    spec = ClusterSpec.from_toml(found_cluster(tmp_path / "c", addresses, name="renewed", tls=True))
    folder = Path(spec.tls)
    renew_certificates(folder, spec, ["second"])
    (folder / "worker-7.pem").write_text("of a task that the cluster has no more")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    renewed = renew_certificates(folder, spec)
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert {path.name for path in renewed} == {"client.pem", "second.pem", "worker-0.pem"}
    assert {name for name, text in after.items() if text != before[name]} == {path.name for path in renewed}
    assert after.keys() == before.keys()


def test_only_where_the_authority_has_its_key(tmp_path: Path) -> None:
    addresses = {"worker": [f"127.0.0.1:{free_ports(1)[0]}"]}
    spec = ClusterSpec.from_toml(found_cluster(tmp_path / "c", addresses, name="renewed", tls=True))
    folder = Path(spec.tls)
    (folder / "authority.key").unlink()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(NotFoundError, match="certificates are renewed where the cluster's authority has"):
        renew_certificates(folder, spec)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_what_a_certificate_may_not_be_taken_for_is_critical(tmp_path: Path) -> None:
    """Whoever checks it must know that it is no authority's, and what its key is for, or refuse it."""
    from cryptography import x509

    addresses = {"worker": [f"127.0.0.1:{free_ports(1)[0]}"]}
    spec = ClusterSpec.from_toml(found_cluster(tmp_path / "c", addresses, name="renewed", tls=True))
    for name, is_authority in (("authority.pem", True), ("worker-0.pem", False), ("client.pem", False)):
        certificate = x509.load_pem_x509_certificate((Path(spec.tls) / name).read_bytes())
        of_kind = certificate.extensions.get_extension_for_class(x509.BasicConstraints)
        of_use = certificate.extensions.get_extension_for_class(x509.KeyUsage)
        assert (of_kind.critical, of_kind.value.ca) == (True, is_authority)
        assert (of_use.critical, of_use.value.key_cert_sign) == (True, is_authority)
