"""The help text of a constructor: an OpDef as text and as a Python signature."""

from __future__ import annotations

import inspect
from typing import Any

from flowengine.ir.argdef import ArgDef
from flowengine.ir.opdef import OpDef


def describe(definition: OpDef) -> str:
    """The signature as text: inputs, outputs and attributes with their types and defaults."""
    lines = [f"Add a {definition.name} node.", ""]
    for title, args in (("Inputs", definition.inputs), ("Outputs", definition.outputs)):
        if args:
            lines += [f"{title}:", *(f"    {a.name}: {_arg_type(a)}" for a in args)]
    if definition.attrs:
        lines.append("Attributes:")
        for attr in definition.attrs:
            text = f"    {attr.name}: {attr.type}"
            if attr.allowed is not None:
                text += " in {" + ", ".join(_text(a) for a in attr.allowed) + "}"
            if attr.minimum is not None:
                text += f" >= {attr.minimum}"
            if attr.has_default:
                text += f" = {_text(attr.default)}"
            lines.append(text)
    if definition.is_stateful:
        lines.append("Stateful.")
    return "\n".join(lines)


def _arg_type(arg: ArgDef) -> str:
    base = arg.type_list_attr or arg.type_attr or str(arg.type)
    base = f"Ref({base})" if arg.is_ref else base
    return f"{arg.number_attr} * {base}" if arg.number_attr is not None else base


def _text(value: Any) -> str:
    if isinstance(value, bytes):
        return repr(value.decode(errors="replace"))
    if isinstance(value, tuple):
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return str(value)


def attributes_of_inputs(definition: OpDef) -> set[str]:
    """The attributes that inputs determine: their types, and how many there are."""
    return {
        attr
        for a in definition.inputs
        for attr in (a.type_attr, a.number_attr, a.type_list_attr)
        if attr is not None
    }


def signature(definition: OpDef) -> inspect.Signature:
    """Inputs by position or name, then `name` and the attributes that inputs do not determine."""
    kind = inspect.Parameter
    parameters = [kind(a.name, kind.POSITIONAL_OR_KEYWORD) for a in definition.inputs]
    implied = attributes_of_inputs(definition)
    parameters.append(kind("name", kind.KEYWORD_ONLY, default=None))
    for attr in definition.attrs:
        if attr.has_default:
            parameters.append(kind(attr.name, kind.KEYWORD_ONLY, default=attr.default))
        elif attr.name in implied:
            parameters.append(kind(attr.name, kind.KEYWORD_ONLY, default=None))
        else:
            parameters.append(kind(attr.name, kind.KEYWORD_ONLY))
    try:
        return inspect.Signature(parameters)
    except ValueError:
        # An attribute and an input of a user's op may have one name; the docstring has both.
        return inspect.Signature([kind("inputs", kind.VAR_POSITIONAL), kind("attrs", kind.VAR_KEYWORD)])


def method_signature(definition: OpDef) -> inspect.Signature:
    """Return the same with a first parameter for the graph, which `help` leaves out for a bound method."""
    found = signature(definition)
    # Attributes begin with a letter, so that none has this name.
    graph = inspect.Parameter("_", inspect.Parameter.POSITIONAL_ONLY)
    return found.replace(parameters=[graph, *found.parameters.values()])
