"""Clusters by name: jobs, tasks and addresses, from a file, the environment or a mapping.

    name = "digits"
    key_file = "cluster.key"
    tls = "tls"

    [jobs]
    ps = ["10.0.0.5:7000"]
    worker = ["10.0.0.6:7000", "10.0.0.7:7000"]

A job is a list of tasks; a task's number is its place in the list, and its name `/job:worker/task:1`.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from flowengine.core.errors import InvalidArgumentError, NotFoundError

_JOB: Final = re.compile(r"[a-z][a-z0-9_]*\Z")
_ADDRESS: Final = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[^\s:/\[\]]+):(?P<port>[0-9]{1,5})\Z")
#: The scheme of a target that is reached under TLS.
TLS_SCHEME: Final = "flow+tls"
#: The allowed fields of a cluster's file.
_FIELDS: Final = frozenset({"name", "key_file", "tls", "jobs"})


def task_name(job: str, task: int) -> str:
    """`/job:worker/task:1`."""
    return f"/job:{job}/task:{task}"


def device_prefix(job: str, task: int) -> str:
    """Return the prefix of the complete names of a task's devices: `/job:worker/replica:0/task:1`."""
    return f"/job:{job}/replica:0/task:{task}"


@dataclass(frozen=True)
class ClusterSpec:
    """The map job -> task -> address of one cluster.

    jobs       {job: {task number: "host:port"}}; numbers may have gaps
    name       tasks of clusters with different names refuse each other
    key_file   the file of the cluster's key, relative to the cluster's file; "" if the key is given otherwise
    tls        the folder of its certificates, found like the key's file (see `certificates`); "" without TLS

    Raises InvalidArgumentError for an invalid job or address, and for two tasks at one address.

    >>> cluster = fe.ClusterSpec.of({"ps": ["10.0.0.1:7000"], "worker": ["10.0.0.2:7000", "10.0.0.3:7000"]})
    >>> list(cluster)
    ['/job:ps/task:0', '/job:worker/task:0', '/job:worker/task:1']
    >>> cluster.address("/job:worker/task:1")
    '10.0.0.3:7000'
    >>> moved = cluster.with_address("/job:ps/task:0", "10.0.0.9:7000")
    >>> print(moved.to_toml())
    name = "flowengine"
    <BLANKLINE>
    [jobs]
    ps = ["10.0.0.9:7000"]
    worker = ["10.0.0.2:7000", "10.0.0.3:7000"]
    <BLANKLINE>
    """

    jobs: Mapping[str, Mapping[int, str]]
    name: str = "flowengine"
    key_file: str = ""
    tls: str = ""
    _tasks: dict[str, str] = field(init=False, repr=False, compare=False, default_factory=dict)

    def __post_init__(self) -> None:
        places: dict[str, str] = {}
        for job, tasks in self.jobs.items():
            if not _JOB.match(job):
                raise InvalidArgumentError(
                    f"{job!r} is no name of a job: it is a lower-case letter, then letters, digits and '_'"
                )
            for number, address in tasks.items():
                name = task_name(job, number)
                if number < 0:
                    raise InvalidArgumentError(f"{name}: a task's number is 0 or more")
                _check_address(address, name)
                other = places.setdefault(address, name)
                if other != name and not address.endswith(":0"):
                    raise InvalidArgumentError(f"{other} and {name} have the same address {address}")
                self._tasks[name] = address
        if not self._tasks:
            raise InvalidArgumentError("a cluster has at least one task: name jobs with their addresses")

    @classmethod
    def of(
        cls, jobs: Mapping[str, Any], *, name: str = "flowengine", key_file: str = "", tls: str = ""
    ) -> ClusterSpec:
        """Make a cluster of {job: [address, ...]} or {job: {number: address}}, as JSON and TOML write them.

        `jobs` may have one address instead of a list. The other arguments are the fields of the class. Raises
        InvalidArgumentError for anything else.
        """
        table: dict[str, dict[int, str]] = {}
        for job, tasks in jobs.items():
            if isinstance(tasks, str):
                tasks = [tasks]
            if isinstance(tasks, Mapping):
                table[job] = {_number(key, job): _text(value, job) for key, value in tasks.items()}
            elif isinstance(tasks, Sequence):
                table[job] = {index: _text(value, job) for index, value in enumerate(tasks)}
            else:
                raise InvalidArgumentError(f"job {job!r} is a list of addresses, not {tasks!r}")
        return cls(table, name, key_file, tls)

    @classmethod
    def from_toml(cls, path: str | Path) -> ClusterSpec:
        """Read a cluster's file at `path`; `key_file` and `tls` are relative to the file's folder.

        Raises NotFoundError if there is none, InvalidArgumentError if the file is invalid.

        >>> spec = fe.ClusterSpec.of({"worker": ["host:7000"]})
        >>> with open("cluster.toml", "w") as file:
        ...     written = file.write(spec.to_toml())
        >>> fe.ClusterSpec.from_toml("cluster.toml").tasks
        {'/job:worker/task:0': 'host:7000'}
        """
        path = Path(path)
        try:
            data = tomllib.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise NotFoundError(f"there is no cluster file {path}") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise InvalidArgumentError(f"the cluster file {path} cannot be read: {error}") from None
        unknown = sorted(data.keys() - _FIELDS)
        if unknown:
            raise InvalidArgumentError(
                f"{path}: {', '.join(unknown)} is not understood; a cluster has {', '.join(sorted(_FIELDS))}"
            )
        jobs = data.get("jobs")
        if not isinstance(jobs, dict):
            raise InvalidArgumentError(f'{path}: a table [jobs] is needed, such as worker = ["host:7000"]')
        places = {
            name: str(path.parent / value) if (value := data.get(name)) else ""
            for name in ("key_file", "tls")
        }
        try:
            return cls.of(jobs, name=str(data.get("name", "flowengine")), **places)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{path}: {error.message}") from None

    def to_toml(self) -> str:
        """Return the text of a file that `from_toml` reads."""
        lines = [f"name = {_quoted(self.name)}"]
        if self.key_file:
            lines.append(f"key_file = {_quoted(self.key_file)}")
        if self.tls:
            lines.append(f"tls = {_quoted(self.tls)}")
        lines += ["", "[jobs]"]
        for job, tasks in self.jobs.items():
            if sorted(tasks) == list(range(len(tasks))):
                addresses = ", ".join(_quoted(tasks[number]) for number in sorted(tasks))
                lines.append(f"{job} = [{addresses}]")
            else:
                entries = (f"{number} = {_quoted(tasks[number])}" for number in sorted(tasks))
                lines.append(f"{job} = {{ {', '.join(entries)} }}")
        return "\n".join(lines) + "\n"

    @property
    def tasks(self) -> Mapping[str, str]:
        """{task name: address}, in the order of the jobs."""
        return self._tasks

    def address(self, task: str) -> str:
        """Return the address of a `task` such as "/job:worker/task:1"; NotFoundError that lists the tasks if
        there is none.
        """
        try:
            return self._tasks[task]
        except KeyError:
            raise NotFoundError(
                f"there is no {task} in cluster '{self.name}'; there are {', '.join(self._tasks)}"
            ) from None

    def with_address(self, task: str, address: str) -> ClusterSpec:
        """Return the same cluster with one `task` at another `address`. Raises NotFoundError for an unknown
        task.
        """
        self.address(task)
        jobs = {
            job: {number: address if task_name(job, number) == task else old for number, old in tasks.items()}
            for job, tasks in self.jobs.items()
        }
        return replace(self, jobs=jobs)

    def __iter__(self) -> Iterator[str]:
        return iter(self._tasks)


@dataclass(frozen=True, slots=True)
class Membership:
    """A cluster and the task of it that a process runs."""

    cluster: ClusterSpec
    job: str
    task: int

    @property
    def name(self) -> str:
        return task_name(self.job, self.task)

    @property
    def address(self) -> str:
        return self.cluster.address(self.name)


def from_tf_config(text: str, *, name: str = "flowengine") -> Membership:
    """Return the cluster and the task that a `TF_CONFIG` variable describes.

    {"cluster": {"ps": ["h:1"], "worker": ["h:2", "h:3"]}, "task": {"type": "worker", "index": 1}}

    Raises InvalidArgumentError that names the missing or wrong part.
    """
    try:
        data = json.loads(text)
    except ValueError as error:
        raise InvalidArgumentError(f"TF_CONFIG is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("cluster"), dict):
        raise InvalidArgumentError('TF_CONFIG has no "cluster": {job: [address, ...]}')
    task = data.get("task")
    if not isinstance(task, dict) or not isinstance(task.get("type"), str) or "index" not in task:
        raise InvalidArgumentError('TF_CONFIG has no "task": {"type": job, "index": number}')
    member = Membership(
        ClusterSpec.of(data["cluster"], name=name), task["type"], _number(task["index"], "task")
    )
    member.cluster.address(member.name)
    return member


def _number(value: Any, job: str) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise InvalidArgumentError(f"{job!r}: a task's number is a whole number, not {value!r}")
    return value


def _text(value: Any, job: str) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(f"{job!r}: an address is text such as 'host:7000', not {value!r}")
    return value


def _quoted(text: str) -> str:
    """Return a TOML string: JSON's, but with every character written as itself or as one escape."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _check_address(address: str, task: str) -> None:
    match = _ADDRESS.match(address)
    if match is None or int(match["port"]) > 65535:
        raise InvalidArgumentError(f"{task}: {address!r} is not an address: write 'host:port'")


__all__ = ["TLS_SCHEME", "ClusterSpec", "Membership", "device_prefix", "from_tf_config", "task_name"]
