"""How the settings about devices are read from text: `CPU=4,GPU=1`, `CPU:0=1000000`, `1` or scopes,
`layer1/*=CPU:1`."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from flowengine.core.errors import InvalidArgumentError


@dataclass(frozen=True, slots=True)
class DeviceSettings:
    """How a device computes with floats, where it has a choice.

    tensor_float_32   whether products and convolutions of float32 may round their factors to 10 bits
    deterministic     whether the same step gives the same bits each time
    """

    tensor_float_32: bool = False
    deterministic: bool = False


def numbers(given: Mapping[str, int] | None, text: str, name: str) -> dict[str, int]:
    """{device type or name: number}, given or else written as `NAME=NUMBER,...`.

    Raises InvalidArgumentError, naming the setting, for what is no such list or not a whole number.
    """
    if given is None:
        pairs = [part.strip() for part in text.split(",") if part.strip()]
        read: dict[str, int] = {}
        for pair in pairs:
            key, sign, number = pair.rpartition("=")
            if not sign or not number.strip().isdigit():
                raise InvalidArgumentError(f"{name} has {pair!r}: write DEVICE=NUMBER, such as CPU=4")
            read[key.strip()] = int(number)
        return read
    _need_mapping(given, name, "{'CPU': 4}")
    for key, value in given.items():
        if type(value) is not int or value < 0:
            raise InvalidArgumentError(
                f"{name} says {value!r} for {key!r}: it must be a whole number, 0 or more"
            )
    return dict(given)


def scopes(given: Any, text: str, name: str) -> tuple[str, ...]:
    """Name scopes: () for none, ("",) for everything, which True or `1` stand for.

    Raises InvalidArgumentError for a single string, which would be taken apart.
    """
    if given is None:
        word = text.strip()
        if word.lower() in ("", "0", "false", "no", "off"):
            return ()
        if word.lower() in ("1", "true", "yes", "on"):
            return ("",)
        return tuple(part.strip() for part in word.split(",") if part.strip())
    if isinstance(given, bool):
        return ("",) if given else ()
    listed: Any = None if isinstance(given, str) or not isinstance(given, Collection) else tuple(given)
    if listed is None or not all(isinstance(each, str) for each in listed):
        raise InvalidArgumentError(f"{name} is {given!r}: give a list of scopes, or True for every tensor")
    found: tuple[str, ...] = listed
    return found


def rules(given: Mapping[str, str] | None, text: str, name: str) -> tuple[tuple[str, str], ...]:
    """(pattern of node names, device) in order, given or else written as `PATTERN=DEVICE,...`.

    Raises InvalidArgumentError, naming the setting, for a rule without pattern or device.
    """
    if given is None:
        pairs = [part.strip() for part in text.split(",") if part.strip()]
        return tuple(rule(pair, name) for pair in pairs)
    _need_mapping(given, name, "{'layer1/*': 'CPU:1'}")
    for pattern, device in given.items():
        if not pattern or not device:
            raise InvalidArgumentError(f"{name} has {pattern!r}: {device!r}: both must say something")
    return tuple(given.items())


def _need_mapping(given: object, name: str, example: str) -> None:
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{name} is {given!r}: give a dict, such as {example}")


def rule(text: str, name: str) -> tuple[str, str]:
    """One `PATTERN=DEVICE`."""
    pattern, sign, device = (part.strip() for part in text.partition("="))
    if not (pattern and sign and device):
        raise InvalidArgumentError(f"{name} has {text!r}: write PATTERN=DEVICE, such as layer1/*=CPU:1")
    return pattern, device
