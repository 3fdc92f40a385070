"""The options of `flowengine run`, `plan` and `compare` that say where nodes go."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.log import StderrHandler

if TYPE_CHECKING:
    from flowengine.core.config import Config

Command = TypeVar("Command", bound=Callable[..., Any])


def placement_options(command: Command) -> Command:
    """Give a command `--device-count`, `--place` and `--soft-placement/--no-soft-placement`."""
    options = (
        click.option(
            "--device-count",
            "device_counts",
            multiple=True,
            metavar="TYPE=N",
            help="Run on N devices of a type, such as CPU=4.",
        ),
        click.option(
            "--place",
            "places",
            multiple=True,
            metavar="PATTERN=DEVICE",
            help="Place nodes whose names match on a device: 'tower_1/*=CPU:1', or with a node: @NAME.",
        ),
        click.option(
            "--soft-placement/--no-soft-placement",
            "soft",
            default=None,
            help="If the graph asks for a device that does not exist, use another one, or fail. The default "
            "is to fail only if there are several devices.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def config_of(
    device_counts: Sequence[str], places: Sequence[str], soft: bool | None, *, log: bool = False
) -> Config | None:
    """The configuration that the options ask for; None where they ask for nothing.

    Raises CommandError for an option that cannot be read.
    """
    from flowengine.core.config import Config
    from flowengine.core.device_config import numbers, rule
    from flowengine.core.errors import InvalidArgumentError
    from flowengine.core.names import DeviceName

    if not (device_counts or places or log) and soft is None:
        return None
    try:
        counts = numbers(None, ",".join(device_counts), "--device-count") if device_counts else None
        rules = dict(rule(text, "--place") for text in places) if places else None
        for device in (rules or {}).values():
            if not device.startswith("@"):
                DeviceName.parse(device if device.startswith("/") else f"/device:{device}")
        config = Config(
            device_count=counts,
            place=rules,
            allow_soft_placement=soft,
            log_device_placement=True if log else None,
        )
        _check_devices(config)
    except InvalidArgumentError as error:
        raise CommandError(error.message, USAGE) from None
    if log:
        _show_log()
    return config


def _check_devices(config: Config) -> None:
    from flowengine.devices.load import DEVICES

    settings = config.resolved()
    DEVICES.make(settings.device_count, settings.device_memory_limits)


def _show_log() -> None:
    """Let the placement's log appear on standard error."""
    logger = logging.getLogger("flowengine.placement")
    handler = StderrHandler()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False
