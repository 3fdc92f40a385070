"""Which cluster is meant, and where a session goes: what `--cluster` and `--at` may say."""

from __future__ import annotations

from pathlib import Path

import pytest

import flowengine as fe
from flowengine.cli import failure
from flowengine.cli.failure import CommandError
from flowengine.cli.main import main
from flowengine.cli.tasks.clusterfile import cluster_of, target_at
from flowengine.cluster.credentials import read_key

TEXT = """
name = "digits"
key_file = "cluster.key"

[jobs]
worker = ["10.0.0.6:7000", "10.0.0.7:7000"]
"""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without a cluster, and an environment that says nothing of one."""
    for name in ("FLOWENGINE_CLUSTER", "FLOWENGINE_CLUSTER_KEY_FILE", "FLOWENGINE_TARGET"):
        monkeypatch.delenv(name, raising=False)
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)
    return empty


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a cluster's file."""
    made = tmp_path / "digits"
    made.mkdir()
    (made / "cluster.toml").write_text(TEXT)
    return made


def test_a_cluster_is_named_or_lies_in_the_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(
        CommandError, match=r"--cluster FILE, or FLOWENGINE_CLUSTER; there is no cluster\.toml"
    ):
        cluster_of(None)
    for named in (str(folder), str(folder / "cluster.toml")):
        assert cluster_of(named).name == "digits"
    monkeypatch.setenv("FLOWENGINE_CLUSTER", str(folder))
    assert cluster_of(None).name == "digits"
    monkeypatch.delenv("FLOWENGINE_CLUSTER")
    monkeypatch.chdir(folder)
    assert cluster_of(None).name == "digits"
    with pytest.raises(fe.errors.NotFoundError, match=r"there is no cluster file other\.toml"):
        cluster_of("other.toml")


def test_an_address_is_a_target(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert target_at("") == ""
    assert target_at("flow://h:7000?cluster=c") == "flow://h:7000?cluster=c"
    assert target_at("10.0.0.6:7000") == "flow://10.0.0.6:7000"
    assert target_at("[::1]:7000") == "flow://[::1]:7000"
    monkeypatch.chdir(folder)
    assert target_at("10.0.0.6:7000") == "flow://10.0.0.6:7000?cluster=digits&key_file=cluster.key"
    assert target_at("/job:worker/task:1") == "flow://10.0.0.7:7000?cluster=digits&key_file=cluster.key"
    # No path of a key where the environment names the same.
    monkeypatch.setenv("FLOWENGINE_CLUSTER_KEY_FILE", "cluster.key")
    assert target_at("localhost:7000") == "flow://localhost:7000?cluster=digits"


@pytest.mark.parametrize("place", ["10.0.0.6", "host:port", "a b:1", "/tmp/socket", ":7000", "host:7000/x"])
def test_what_is_no_place_is_refused(place: str) -> None:
    with pytest.raises(CommandError, match="write HOST:PORT, a task such as /job:worker/task:0, or flow://"):
        target_at(place)


def test_a_task_needs_its_cluster(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(CommandError, match="name the cluster") as caught:
        target_at("/job:worker/task:0")
    assert caught.value.code == failure.USAGE
    monkeypatch.chdir(folder)
    with pytest.raises(fe.errors.NotFoundError, match="there are /job:worker/task:0"):
        target_at("/job:ps/task:0")


def test_the_folder_is_looked_into_by_the_verb(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["cluster", "status"]) == failure.USAGE
    assert "there is no cluster.toml in this folder" in capfd.readouterr().err


def test_a_new_cluster_is_a_folder_for_every_machine(
    nowhere: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = ["--job", "ps=10.0.0.5:7000", "--job", "worker=10.0.0.6:7000,10.0.0.7:7000"]
    assert main(["cluster", "new", "digits", "--name", "digits", *jobs]) == failure.OK
    said = capsys.readouterr()
    assert said.out == f"{Path('digits', 'cluster.toml')}\n"
    assert said.err.splitlines()[-1].endswith("--cluster digits/cluster.toml --job worker --task 1")
    spec = cluster_of("digits")
    assert dict(spec.tasks) == {
        "/job:ps/task:0": "10.0.0.5:7000",
        "/job:worker/task:0": "10.0.0.6:7000",
        "/job:worker/task:1": "10.0.0.7:7000",
    }
    assert (spec.name, spec.key_file) == ("digits", str(Path("digits", "cluster.key")))
    key = read_key(spec.key_file)
    assert key is not None
    assert len(key) == 32
    assert Path("digits").stat().st_mode & 0o777 == 0o700
    assert Path(spec.key_file).stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("there", ["cluster.toml", "cluster.key"])
def test_a_new_cluster_overwrites_nothing(
    nowhere: Path, there: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(there).write_text("mine")
    assert main(["cluster", "new", "--job", "ps=10.0.0.5:7000"]) == failure.STEP_ERROR
    assert f"{there} is there already; name another folder" in capsys.readouterr().err
    assert [(each.name, each.read_text()) for each in nowhere.iterdir()] == [(there, "mine")]


@pytest.mark.parametrize("job", ["ps", "ps=", "ps=10.0.0.5", "Ps=10.0.0.5:7000"])
def test_a_new_cluster_of_no_jobs_is_not_written(nowhere: Path, job: str) -> None:
    assert main(["cluster", "new", "--job", job]) in (failure.USAGE, failure.STEP_ERROR)
    assert list(nowhere.iterdir()) == []
