"""Clusters from files, TF_CONFIG and mappings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flowengine.cluster.spec import ClusterSpec, from_tf_config, task_name
from flowengine.core.errors import InvalidArgumentError, NotFoundError

_JOBS = st.dictionaries(
    st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True),
    st.dictionaries(st.integers(0, 20), st.integers(1, 65535), min_size=1, max_size=4),
    min_size=1,
    max_size=4,
)


@given(_JOBS, st.text(st.characters(codec="utf-8"), max_size=10))
def test_a_file_says_the_cluster_again(
    tmp_path_factory: pytest.TempPathFactory, jobs: dict[str, dict[int, int]], name: str
) -> None:
    hosts = iter(f"host{number}" for number in range(100))
    spec = ClusterSpec(
        {
            job: {number: f"{next(hosts)}:{port}" for number, port in tasks.items()}
            for job, tasks in jobs.items()
        },
        name,
    )
    path = tmp_path_factory.mktemp("spec") / "cluster.toml"
    path.write_text(spec.to_toml(), encoding="utf-8")
    assert ClusterSpec.from_toml(path) == spec
    assert sorted(spec) == sorted(task_name(job, number) for job, tasks in jobs.items() for number in tasks)


def test_lists_and_numbered_tasks() -> None:
    spec = ClusterSpec.of({"ps": "h:1", "worker": {"0": "h:2", "3": "[::1]:4"}}, name="c")
    assert dict(spec.tasks) == {
        "/job:ps/task:0": "h:1",
        "/job:worker/task:0": "h:2",
        "/job:worker/task:3": "[::1]:4",
    }
    moved = spec.with_address("/job:ps/task:0", "elsewhere:9")
    assert moved.address("/job:ps/task:0") == "elsewhere:9"
    assert moved.name == "c"


@pytest.mark.parametrize(
    ("jobs", "message"),
    [
        ({}, "at least one task"),
        ({"Worker": ["h:1"]}, "'Worker' is no name of a job"),
        ({"worker": ["h"]}, "/job:worker/task:0: 'h' is not an address"),
        ({"worker": ["h:65536"]}, "not an address"),
        ({"worker": ["h:1", "h:1"]}, "task:0 and /job:worker/task:1 have the same address h:1"),
        ({"worker": 3}, "a list of addresses"),
        ({"worker": [3]}, "an address is text"),
        ({"worker": {"x": "h:1"}}, "whole number, not 'x'"),
        ({"worker": {-1: "h:1"}}, "0 or more"),
    ],
)
def test_what_is_no_cluster_is_refused(jobs: dict[str, object], message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message.replace("(", r"\(")):
        ClusterSpec.of(jobs)


def test_any_port_that_there_is() -> None:
    for port in (0, 1, 65535):
        assert ClusterSpec.of({"worker": [f"h:{port}"]}).address("/job:worker/task:0") == f"h:{port}"


def test_two_tasks_may_choose_their_port_themselves() -> None:
    assert len(ClusterSpec.of({"worker": ["127.0.0.1:0", "127.0.0.1:0"]}).tasks) == 2


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "cluster.toml"
    with pytest.raises(NotFoundError, match=r"cluster\.toml"):
        ClusterSpec.from_toml(path)
    for text, message in [
        ("jobs = [", "cannot be read"),
        ("[job]\nworker = ['h:1']", "job is not understood"),
        ("name = 'x'", r"a table \[jobs\]"),
        ("[jobs]\nworker = ['h']", "cluster.toml: .*not an address"),
    ]:
        path.write_text(text)
        with pytest.raises(InvalidArgumentError, match=message):
            ClusterSpec.from_toml(path)
    path.write_text("key_file = 'k'\n[jobs]\nworker = ['h:1']")
    assert ClusterSpec.from_toml(path).key_file == str(tmp_path / "k")


def test_an_unknown_task_is_told_which_there_are() -> None:
    with pytest.raises(NotFoundError, match="there are /job:a/task:0"):
        ClusterSpec.of({"a": ["h:1"]}).address("/job:a/task:1")


def test_tf_config() -> None:
    config = {"cluster": {"ps": ["h:1"], "worker": ["h:2", "h:3"]}, "task": {"type": "worker", "index": "1"}}
    member = from_tf_config(json.dumps(config), name="c")
    assert (member.name, member.address) == ("/job:worker/task:1", "h:3")
    for broken, message in [
        ("{", "not JSON"),
        ("{}", '"cluster"'),
        (json.dumps({"cluster": config["cluster"]}), '"task"'),
        (json.dumps({**config, "task": {"type": "worker", "index": None}}), "whole number"),
    ]:
        with pytest.raises(InvalidArgumentError, match=message):
            from_tf_config(broken)
    with pytest.raises(NotFoundError, match="/job:chief/task:0"):
        from_tf_config(json.dumps({**config, "task": {"type": "chief", "index": 0}}))
