"""`flowengine ops`: what can run here, by op, with its signature, dtypes, devices and provider."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

import click

from flowengine.cli.failure import USAGE, CommandError
from flowengine.cli.imports import import_option
from flowengine.cli.overview import SERVED_BY_ENGINE
from flowengine.cli.results import dumps
from flowengine.core.dtypes import DType
from flowengine.ir.argdef import ArgDef, AttrDef
from flowengine.ir.opdef import OpDef
from flowengine.kernels.registry import Kernel, KernelRegistry

HELP: Final = """\
List the ops that FlowEngine can run, with signature, dtypes, device and provider.

PATTERN is a part of a name, or a pattern with the wildcards * and ?. It ignores case.
"""

MARKDOWN_HEAD: Final = """\
# Ops

The ops that have a kernel, with the dtypes that it takes, where it runs and the library behind it. This page
is made from the registry, by `make generate`. `flowengine ops PATTERN` shows signatures, and
`flowengine inspect GRAPH` what a graph needs and is not here.

Of dtypes `any` is every one, with those of eight bits and less (`float8_e5m2`, `float8_e4m3fn`, `int4`,
`uint4` and their like): such tensors are kept, moved, cast and stored, and nothing computes in them.

"""


#: What provides the calls of functions: their bodies' nodes have kernels, they themselves need none.
ENGINE: Final = "engine"
#: Stands for all device types.
ANY_DEVICE: Final = "any"


@dataclass(frozen=True, slots=True)
class OpFacts:
    """One op.

    types     {type attribute: names of the dtypes that some kernel takes}; empty list for any
    devices   the device types that it has a kernel for; `any` where one is for all
    why       why it has none
    """

    name: str
    signature: str
    types: dict[str, list[str]]
    devices: list[str]
    providers: list[str]
    why: str = ""


@click.command("ops", help=HELP)
@click.argument("pattern", metavar="[PATTERN]", default="*")
@click.option(
    "--missing",
    is_flag=True,
    help="List the ops of TensorFlow that have no kernel here instead, with the reason.",
)
@import_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--markdown", is_flag=True, help="Print a page of documentation.")
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
def command(pattern: str, missing: bool, as_json: bool, markdown: bool, debug: bool) -> None:
    found = list(without_kernel(pattern) if missing else matching(pattern))
    if not found:
        which = "known op without a kernel" if missing else "op that can run here"
        raise CommandError(f"no {which} matches {pattern!r}", USAGE)
    if as_json:
        click.echo(dumps({"ops": [asdict(each) for each in found]}), nl=False)
    elif markdown:
        click.echo(as_markdown(found), nl=False)
    else:
        for each in found:
            place = (
                f"{' and '.join(each.devices)}, {' and '.join(each.providers)}"
                if each.devices
                else f"no kernel: {each.why}"
            )
            click.echo(f"{each.signature}\n    {_types(each)}{place}")


def matching(pattern: str) -> Iterator[OpFacts]:
    """The ops that run here and whose name the pattern fits, by name."""
    from flowengine.kernels.load import registry as kernel_registry
    from flowengine.ops.load import registry

    by_op = _by_op(kernel_registry())
    for name in registry():
        if not _fits(name, pattern):
            continue
        if name in by_op:
            yield _facts(registry()[name], by_op[name])
        elif name in SERVED_BY_ENGINE:
            definition = registry()[name]
            types: dict[str, list[str]] = {
                attr.name: [] for attr in definition.attrs if attr.type in ("type", "list(type)")
            }
            yield OpFacts(name, signature(definition), types, [ANY_DEVICE], [ENGINE])


def without_kernel(pattern: str) -> Iterator[OpFacts]:
    """The ops whose name the pattern fits and that have no kernel, by name; then whole families of names.

    An op that is left out has no signature here, as a rule, and of a family there is only its pattern.
    """
    from flowengine.kernels.load import registry as kernel_registry
    from flowengine.ops.left_out import LEFT_OUT, reason
    from flowengine.ops.load import registry

    by_op, definitions = _by_op(kernel_registry()), registry()
    for name in definitions:
        if name not in by_op and name not in SERVED_BY_ENGINE and _fits(name, pattern):
            yield OpFacts(name, signature(definitions[name]), {}, [], [], reason(name))
    for why, names in LEFT_OUT.items():
        for name in names.split():
            if name in definitions or any(fnmatch.fnmatchcase(op, name) for op in by_op):
                continue
            # Whoever asks for one op by its name is told of its family.
            if _fits(name, pattern) or fnmatch.fnmatchcase(pattern, name):
                yield OpFacts(name, name, {}, [], [], why)


def _fits(name: str, pattern: str) -> bool:
    wanted = pattern.lower() if any(c in pattern for c in "*?[") else f"*{pattern.lower()}*"
    return fnmatch.fnmatchcase(name.lower(), wanted)


def _by_op(kernels: KernelRegistry) -> dict[str, list[Kernel]]:
    found: dict[str, list[Kernel]] = {}
    for kernel in kernels:
        found.setdefault(kernel.op, []).append(kernel)
    return found


def _facts(definition: OpDef, kernels: list[Kernel]) -> OpFacts:
    return OpFacts(
        definition.name,
        signature(definition),
        {
            attr.name: _served(attr, kernels)
            for attr in definition.attrs
            if attr.type in ("type", "list(type)")
        },
        sorted({kernel.device or ANY_DEVICE for kernel in kernels}),
        sorted({kernel.provider for kernel in kernels}),
    )


def _served(attr: AttrDef, kernels: list[Kernel]) -> list[str]:
    """The dtypes that the definition allows and some kernel takes; empty where any will do."""
    taken: set[DType] = set()
    for kernel in kernels:
        named = None if kernel.types is None else kernel.types.get(attr.name)
        if named is None:
            allowed: Iterable[Any] = attr.allowed or ()
            return sorted(str(dtype) for dtype in allowed)
        taken |= named
    return sorted(str(dtype) for dtype in taken if not attr.allowed or dtype in attr.allowed)


def signature(definition: OpDef) -> str:
    """`MatMul(a: T, b: T) -> product: T`."""
    inputs = ", ".join(map(_argument, definition.inputs))
    outputs = ", ".join(map(_argument, definition.outputs)) or "nothing"
    return f"{definition.name}({inputs}) -> {outputs}"


def _argument(arg: ArgDef) -> str:
    kind = arg.type_list_attr or arg.type_attr or str(arg.type)
    kind = f"Ref({kind})" if arg.is_ref else kind
    return f"{arg.name}: {arg.number_attr}*{kind}" if arg.number_attr else f"{arg.name}: {kind}"


def _types(facts: OpFacts) -> str:
    shown = [f"{name} in {', '.join(types)}; " for name, types in facts.types.items() if types]
    return "".join(shown)


def as_markdown(found: list[OpFacts]) -> str:
    """A page with one row an op."""
    rows = ["| op | dtypes | device | provider |", "|---|---|---|---|"]
    for each in found:
        types = "; ".join(f"{name}: {' '.join(types) or 'any'}" for name, types in each.types.items())
        rows.append(f"| `{each.name}` | {types} | {' '.join(each.devices)} | {' '.join(each.providers)} |")
    return MARKDOWN_HEAD + f"{len(found)} ops.\n\n" + "\n".join([*rows, *_missing_rows()]) + "\n"


def _missing_rows() -> list[str]:
    """The ops without a kernel, by the reason."""
    from flowengine.ops.left_out import NOT_YET

    by_reason: dict[str, list[str]] = {}
    for each in without_kernel("*"):
        by_reason.setdefault(each.why, []).append(f"`{each.name}`")
    # What may come stands at the end.
    reasons = sorted(by_reason, key=lambda why: why == NOT_YET)
    rows = ["", "## What is not here", "", "`flowengine ops --missing` tells the same.", ""]
    rows += ["| why | ops |", "|---|---|"]
    return rows + [f"| {why} | {' '.join(by_reason[why])} |" for why in reasons]
