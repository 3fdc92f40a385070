"""`flowengine devices`: what this machine can run graphs on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

import click

from flowengine.cli.placement import config_of
from flowengine.cli.results import dumps
from flowengine.devices.cuda import CudaSearch, search

HELP: Final = """\
List the devices that a session has on this machine.

Each device has a name, a memory limit, a number of kernels and the libraries that they use. Below them are
the libraries that the session searched for, and the GPUs that NVIDIA's driver reports, or the reason why
there is none.
"""


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """One device. `memory_limit_bytes` is None without a limit; `providers`: {library: its kernels}."""

    name: str
    type: str
    memory_limit_bytes: int | None
    kernels: int
    ops: int
    providers: dict[str, int]


@dataclass(frozen=True, slots=True)
class ProviderFacts:
    """A library that kernels call; `reason` says why it is not used."""

    name: str
    available: bool
    version: str
    reason: str


@click.command("devices", help=HELP)
@click.option(
    "--device-count",
    "device_counts",
    multiple=True,
    metavar="TYPE=N",
    help="Number of devices of a type, such as CPU=4.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(device_counts: tuple[str, ...], as_json: bool, debug: bool) -> None:
    devices = found(device_counts)
    providers = libraries()
    graphics = search()
    if as_json:
        document = {
            "devices": [asdict(d) for d in devices],
            "providers": [asdict(p) for p in providers],
            "gpu": asdict(graphics),
        }
        click.echo(dumps(document), nl=False)
        return
    for device in devices:
        limit = (
            "no memory limit" if device.memory_limit_bytes is None else f"{device.memory_limit_bytes:,} bytes"
        )
        by = ", ".join(f"{count} by {name}" for name, count in device.providers.items()) or "none"
        click.echo(f"{device.name}\n    {limit}; {device.kernels} kernels of {device.ops} ops: {by}")
    for provider in providers:
        state = f"version {provider.version}" if provider.available else f"not used: {provider.reason}"
        click.echo(f"{provider.name}: {state}")
    for line in graphics_lines(graphics):
        click.echo(line)


def graphics_lines(found: CudaSearch) -> Iterator[str]:
    """Yield the lines about GPUs: each card and the libraries for it, or why there is no card."""
    if not found.cards:
        yield f"GPU: none: {found.reason}"
        return
    assert found.cuda_version is not None
    newest = "{}.{}".format(*found.cuda_version)
    for card in found.cards:
        yield (
            f"GPU: {card.name}, {card.memory_bytes:,} bytes, {card.multiprocessors} multiprocessors, "
            f"compute capability {card.capability[0]}.{card.capability[1]}; driver for CUDA {newest}"
        )
    for library in found.libraries:
        if library.version:
            yield f"    {library.name}: version {library.version}"
        else:
            yield f"    {library.name}: not installed; its distribution is {library.distribution}"
    yield "    not used: this version of FlowEngine has no device for GPUs"


def found(device_counts: tuple[str, ...]) -> list[DeviceFacts]:
    """The devices of a session with these settings and those of the environment."""
    from flowengine.core.config import Config
    from flowengine.devices.load import DEVICES
    from flowengine.kernels.load import registry

    settings = (config_of(device_counts, (), None) or Config()).resolved()
    kernels = list(registry(settings.kernel_provider))
    facts = []
    for device in DEVICES.make(settings.device_count, settings.device_memory_limits):
        here = [kernel for kernel in kernels if kernel.device in (None, device.type)]
        facts.append(
            DeviceFacts(
                device.name,
                device.type,
                device.ledger.limit_bytes,
                len(here),
                len({kernel.op for kernel in here}),
                dict(sorted(Counter(kernel.provider for kernel in here).items())),
            )
        )
    return facts


def libraries() -> list[ProviderFacts]:
    """The libraries that were looked for, the preferred first."""
    from flowengine.kernels.providers import providers

    return [ProviderFacts(p.name, p.available, p.version, p.reason) for p in providers()]
