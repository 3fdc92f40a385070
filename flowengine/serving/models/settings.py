"""The models of a server and how each is served, from options or TensorFlow Serving's configuration files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.serving.models.names import check_model_name
from flowengine.serving.proto import (
    BatchingParameters,
    FileSystemStoragePathSourceConfig,
    ModelConfig,
    ModelServerConfig,
    MonitoringConfig,
)

M = TypeVar("M", bound=Message)

#: The settings of a batch where a file leaves them out; TensorFlow Serving's own.
_MAX_BATCH_SIZE: Final = 1000
_MAX_ENQUEUED_BATCHES: Final = 10
#: The platform of a model's configuration that can be served.
_PLATFORMS: Final = ("", "tensorflow", "flowengine")


@dataclass(frozen=True, slots=True)
class VersionPolicy:
    """The versions of a model that are served: the latest so many, all, or those that are listed.

    latest     the number of the latest versions; None for another policy
    specific   the versions by number; empty for all

    >>> from flowengine.serving.models.settings import VersionPolicy
    >>> VersionPolicy().chosen([1, 2, 10]), VersionPolicy(latest=None, specific=(2, 3)).chosen([1, 2, 10])
    ([10], [2])
    """

    latest: int | None = 1
    specific: tuple[int, ...] = ()

    def chosen(self, present: list[int]) -> list[int]:
        """Return those of the present versions that are to be served, rising."""
        rising = sorted(present)
        if self.latest is not None:
            return rising[-self.latest :]
        return [number for number in rising if number in self.specific] if self.specific else rising


@dataclass(frozen=True, slots=True)
class RowBatching:
    """How the rows of requests are put together; the arguments of `ModelSignature.batched`."""

    max_rows: int = 64
    allowed_rows: tuple[int, ...] = ()
    wait_seconds: float = 0.0
    batches_at_once: int = 1
    max_waiting_rows: int | None = None
    pad: bool = False
    split: bool = True


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """How one model is served.

    name       in requests
    folder     holds a folder for each version, named by its number; or is itself the only version, 1
    policy     which versions are served
    labels     {label: version}
    batching   how rows of requests are put together; None for a step of each request
    """

    name: str
    folder: Path
    policy: VersionPolicy = VersionPolicy()
    labels: Mapping[str, int] = field(default_factory=dict)
    batching: RowBatching | None = None


def models_in(folder: str | os.PathLike[str], batching: RowBatching | None = None) -> list[ModelSettings]:
    """Return the models of a folder, each under the name of its own folder or file.

    A folder that is itself a model, or holds numbered versions, is one model under its own name. Raises
    NotFoundError if there is no model.
    """
    path = Path(os.path.abspath(folder))
    if not path.is_dir():
        raise NotFoundError(f"there is no folder {str(path)!r}: give the folder that holds the models")
    if is_model(path) or numbered(path):
        return [ModelSettings(path.name, path, batching=batching)]
    found = [
        ModelSettings(each.name, each, batching=batching)
        for each in sorted(path.iterdir())
        if each.is_dir() and not each.name.startswith(".") and (is_model(each) or numbered(each))
    ]
    if not found:
        raise NotFoundError(
            f"the folder {str(path)!r} holds no model: a model is a folder with saved_model.pb, or with "
            "a folder for each version, such as 1/saved_model.pb"
        )
    return found


def is_model(folder: Path) -> bool:
    """Whether a folder is itself what a version is: a SavedModel, a MetaGraph, or a graph with signatures."""
    return any((folder / name).exists() for name in ("saved_model.pb", "saved_model.pbtxt", SIGNATURES))


#: The file beside a frozen graph or a MetaGraph that says how to call it.
SIGNATURES: Final = "signatures.json"


def numbered(folder: Path) -> dict[int, Path]:
    """Return {number: folder} of the versions that a folder holds; other names are left out."""
    found: dict[int, Path] = {}
    for each in folder.iterdir():
        if each.name.isdecimal() and each.name.isascii() and each.is_dir():
            found.setdefault(int(each.name), each)
    return found


def read_models(file: str | os.PathLike[str], batching: RowBatching | None = None) -> list[ModelSettings]:
    """Read a `--model_config_file`: a ModelServerConfig of TensorFlow Serving in protobuf's text format.

    Raises NotFoundError if it cannot be read, InvalidArgumentError with the line for what it may not say.
    """
    message = _parsed(file, ModelServerConfig())
    if message.HasField("custom_model_config"):
        raise InvalidArgumentError(f"{os.fspath(file)}: custom_model_config is not served: list the models")
    models = [_model(os.fspath(file), each, batching) for each in message.model_config_list.config]
    names = [each.name for each in models]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidArgumentError(f"{os.fspath(file)}: the model {repeated[0]!r} is listed twice")
    if not models:
        raise InvalidArgumentError(f"{os.fspath(file)}: it lists no models (model_config_list)")
    return models


def read_batching(file: str | os.PathLike[str]) -> RowBatching:
    """Read a `--batching_parameters_file`: BatchingParameters in protobuf's text format; errors as above."""
    message: Any = _parsed(file, BatchingParameters())

    def number(name: str, otherwise: int) -> int:
        return int(getattr(message, name).value) if message.HasField(name) else otherwise

    most = number("max_batch_size", _MAX_BATCH_SIZE)
    split = message.enable_large_batch_splitting.value
    sizes = tuple(message.allowed_batch_sizes)
    rows = number("max_execution_batch_size", sizes[-1] if sizes else most) if split else most
    enqueued = number("max_enqueued_batches", _MAX_ENQUEUED_BATCHES)
    threads = number("num_batch_threads", os.cpu_count() or 1)
    wait = number("batch_timeout_micros", 0)
    if min(most, rows, enqueued, threads) < 1 or wait < 0:
        raise InvalidArgumentError(
            f"{os.fspath(file)}: sizes and numbers must be at least 1, batch_timeout_micros at least 0"
        )
    if sizes and (sizes[-1] != rows or list(sizes) != sorted(set(sizes)) or sizes[0] < 1):
        raise InvalidArgumentError(
            f"{os.fspath(file)}: allowed_batch_sizes {list(sizes)} must rise and end with {rows}"
        )
    return RowBatching(
        max_rows=rows,
        allowed_rows=sizes,
        wait_seconds=wait / 1e6,
        batches_at_once=threads,
        max_waiting_rows=rows * (enqueued + threads),
        pad=message.pad_variable_length_inputs,
        split=split,
    )


def read_monitoring(file: str | os.PathLike[str]) -> str | None:
    """Read a `--monitoring_config_file`: the path of the metrics for Prometheus, None if they are off."""
    prometheus = _parsed(file, MonitoringConfig()).prometheus_config
    if not prometheus.enable:
        return None
    path: str = prometheus.path or "/monitoring/prometheus/metrics"
    return path if path.startswith("/") else f"/{path}"


def _model(file: str, config: ModelConfig, batching: RowBatching | None) -> ModelSettings:
    name = config.name
    check_model_name(name, file)
    if config.model_platform not in _PLATFORMS:
        raise InvalidArgumentError(
            f"{file}: model {name!r} has model_platform {config.model_platform!r}; served is 'tensorflow'"
        )
    if not os.path.isabs(config.base_path):
        raise InvalidArgumentError(
            f"{file}: the base_path of model {name!r} must be absolute, not {config.base_path!r}"
        )
    policy = _policy(file, name, config.model_version_policy)
    for label, version in config.version_labels.items():
        if not label or version < 0:
            raise InvalidArgumentError(
                f"{file}: model {name!r} has the label {label!r} for version {version}"
            )
    return ModelSettings(name, Path(config.base_path), policy, dict(config.version_labels), batching)


def _policy(
    file: str, name: str, policy: FileSystemStoragePathSourceConfig.ServableVersionPolicy
) -> VersionPolicy:
    choice = policy.WhichOneof("policy_choice")
    if choice == "all":
        return VersionPolicy(latest=None)
    if choice == "specific":
        if not policy.specific.versions:
            raise InvalidArgumentError(f"{file}: the specific policy of model {name!r} lists no versions")
        return VersionPolicy(latest=None, specific=tuple(policy.specific.versions))
    return VersionPolicy(latest=policy.latest.num_versions or 1)


def _parsed(file: str | os.PathLike[str], message: M) -> M:
    try:
        text = Path(file).read_text("utf-8")
    except OSError as error:
        raise NotFoundError(f"{os.fspath(file)!r} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise InvalidArgumentError(f"{os.fspath(file)!r} is no text: it is protobuf's text format") from None
    try:
        parsed: Any = text_format.Parse(text, message)
    except text_format.ParseError as error:
        raise InvalidArgumentError(f"{os.fspath(file)}:{error}") from None
    return parsed  # type: ignore[no-any-return]


__all__ = [
    "SIGNATURES",
    "ModelSettings",
    "RowBatching",
    "VersionPolicy",
    "is_model",
    "models_in",
    "numbered",
    "read_batching",
    "read_models",
    "read_monitoring",
]
