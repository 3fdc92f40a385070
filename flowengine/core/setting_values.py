"""Values of settings: as a caller gives them, or as text in `FLOWENGINE_*` variables of the environment.

Each function takes the value given, or None, and the name of the variable without its prefix; a field of
`Config` has the same name in lower case. All raise InvalidArgumentError, naming the field or the variable.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Final

from flowengine.core import device_config
from flowengine.core.errors import InvalidArgumentError
from flowengine.core.files.access import FILE_ACCESS, FileAccess
from flowengine.core.public_names.suggest import did_you_mean

#: Who computes: the fastest that is there, NumPy alone, or oneDNN without fail.
KERNEL_PROVIDERS: Final = ("auto", "numpy", "onednn")

#: Fields of `Config` that bound something, and the least that each may be.
_BOUNDS: Final = {"memory_limit_bytes": 1, "session_memory_bytes": 1, "max_steps": 1, "max_waiting_steps": 0}


def check_given(fields: Mapping[str, Any]) -> None:
    """Check the fields of a `Config` that were given; those at None are left to the environment."""
    for name, value in fields.items():
        if value is None:
            continue
        if name == "file_access":
            check_file_access(name, value)
        elif name == "kernel_provider":
            if value:
                check_choice(name, value, KERNEL_PROVIDERS)
        elif name in ("device_count", "device_memory_limits"):
            device_config.numbers(value, "", name)
        elif name == "place":
            device_config.rules(value, "", name)
        elif name == "compress_transfers":
            device_config.scopes(value, "", name)
        elif name == "silence_seconds":
            silence(value)
        elif name in _BOUNDS:
            bound(value, name.upper(), least=_BOUNDS[name])
        else:
            flag(value, name.upper())


def setting_name(given: object, name: str) -> str:
    """Return the name of a setting for an error: the field if it was given, else the variable."""
    return _variable(name) if given is None else name.lower()


def text_of(name: str, default: str) -> str:
    """The text of a variable, or the default."""
    return os.environ.get(_variable(name), default)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Check that a value is one of these texts."""
    if not isinstance(value, str) or value not in choices:
        near = did_you_mean(value, choices, 1) if isinstance(value, str) else ""
        raise InvalidArgumentError(f"{name} is {value!r}: it must be one of {_listed(choices)}{near}")


def check_file_access(name: str, value: Any) -> None:
    """Check that a value says what may be done with files."""
    if not isinstance(value, FileAccess):
        choices = f"{_listed(FILE_ACCESS)}, or a FileAccess"
        if not isinstance(value, str) or value not in FILE_ACCESS:
            near = did_you_mean(value, FILE_ACCESS, 1) if isinstance(value, str) else ""
            raise InvalidArgumentError(f"{name} is {value!r}: it must be one of {choices}{near}")


def silence(given: float | None) -> float:
    """`silence_seconds`: a positive, finite number."""
    seconds = _number("SILENCE_SECONDS", 30.0) if given is None else given
    if not (is_number(seconds) and 0 < seconds < float("inf")):
        raise InvalidArgumentError(f"silence_seconds is {seconds!r}: it must be positive and finite")
    return float(seconds)


def bound(given: int | None, name: str, *, least: int = 1) -> int | None:
    """A bound, a whole number; None for none."""
    value = _integer(name) if given is None else given
    if value is not None and not (type(value) is int and value >= least):
        wanted = "a positive whole number" if least else "a whole number, 0 or more"
        raise InvalidArgumentError(f"{setting_name(given, name)} is {value!r}: it must be {wanted}")
    return value


def flag(given: bool | None, name: str, *, default: bool = True) -> bool:
    """True or False; in the environment 1, true, yes, on, or 0, false, no, off."""
    if given is not None:
        if not isinstance(given, bool):
            raise InvalidArgumentError(f"{name.lower()} is {given!r}: it must be True or False")
        return given
    text = text_of(name, "").strip().lower()
    if not text:
        return default
    if text in ("1", "true", "yes", "on"):
        return True
    if text in ("0", "false", "no", "off"):
        return False
    raise InvalidArgumentError(f"{_variable(name)} is {text!r}: write 1 or 0")


def open_flag(given: bool | None, name: str) -> bool | None:
    """A flag that may stay open."""
    return None if given is None and not text_of(name, "").strip() else flag(given, name)


def is_number(value: object) -> bool:
    """Whether a value is a number, which bools are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def _listed(choices: Sequence[str]) -> str:
    return ", ".join(map(repr, choices))


def _variable(name: str) -> str:
    return f"FLOWENGINE_{name}"


def _integer(name: str) -> int | None:
    text = text_of(name, "")
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise InvalidArgumentError(f"{_variable(name)} is {text!r}: it must be a whole number") from None


def _number(name: str, default: float) -> float:
    text = text_of(name, "")
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise InvalidArgumentError(f"{_variable(name)} is {text!r}: it must be a number") from None


__all__ = [
    "KERNEL_PROVIDERS",
    "bound",
    "check_choice",
    "check_file_access",
    "check_given",
    "flag",
    "is_number",
    "open_flag",
    "setting_name",
    "silence",
    "text_of",
]
