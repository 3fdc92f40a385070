"""`--signature`: an exported graph called by the names of its signature instead of those of its tensors."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from flowengine.cli.failure import BAD_FEED, USAGE, CommandError, printable
from flowengine.core.errors import InvalidArgumentError, OpError

if TYPE_CHECKING:
    from flowengine.cli.graphs import GraphSource
    from flowengine.graphs.graph import Graph
    from flowengine.saved_model.functions import ModelFunction
    from flowengine.saved_model.signatures import SignatureFacts, SignatureTensor


@dataclass(frozen=True, slots=True)
class CalledSignature:
    """The signature that a run calls by; without one (None) every name is one of the graph.

    inputs, outputs   {what stands on the command line: the graph's tensor}
    """

    facts: SignatureFacts | None = None
    inputs: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, str] = field(default_factory=dict)

    def input(self, name: str, graph: Graph) -> str:
        """The tensor of an input; a name that is none is the graph's own.

        Raises CommandError (a bad feed), with the inputs that there are, for a name of neither.
        """
        if self.inputs and name not in self.inputs and name.partition(":")[0] not in graph:
            known = ", ".join(self.inputs)
            raise CommandError(
                f"--feed {name}: neither the signature nor the graph has it (inputs: {known})", BAD_FEED
            )
        return self.inputs.get(name, name)

    def output(self, name: str) -> str:
        """The tensor of an output, likewise."""
        return self.outputs.get(name, name)

    def label(self, tensor: str) -> str:
        """The input that a tensor is; without a signature, the tensor's own name."""
        return next((name for name, each in self.inputs.items() if each == tensor), tensor)

    def complete(self, fed: dict[str, Any], later: Collection[str] = ()) -> None:
        """Add the defaults of inputs that are not fed; CommandError (a bad feed) naming what is missing.

        later   tensors that will be fed, too
        """
        if self.facts is None:
            return
        for name, each in self.facts.inputs.items():
            if any(tensor in fed or tensor in later for tensor in each.tensors):
                continue
            if each.default is None:
                raise CommandError(
                    f"nothing was fed to '{name}': add --feed {name}=SOURCE ({each}), which signature "
                    f"'{self.facts.name}' wants",
                    BAD_FEED,
                )
            fed[each.tensors[0]] = each.default


def called_signature(
    source: GraphSource,
    named: str | None,
    *,
    is_wanted: bool,
    asks_by_name: bool,
    function: str | None = None,
) -> CalledSignature:
    """The signature that a run calls by.

    named          what `--signature` says, or None: then the default one of a SavedModel's directory
    function       what `--function` says, or None: a function that TensorFlow 2 saved, called by its name
    is_wanted      whether something is fed
    asks_by_name   whether the graph's own tensors or nodes are asked for, so that there need be none

    Raises CommandError (usage) for one that there is not.
    """
    if function is not None:
        return _called(_function(source, named, function))
    if named is not None:
        if named not in source.signatures:
            known = ", ".join(source.signatures) or "none"
            raise CommandError(f"--signature {named}: there is no such signature (there are: {known})", USAGE)
        return _called(source.signatures[named])
    if source.saved is None or not source.signatures:
        return CalledSignature()
    from flowengine.saved_model.model import default_signature

    try:
        found = source.signatures[default_signature(source.signatures)]
    except InvalidArgumentError as error:
        if asks_by_name or not is_wanted:
            return CalledSignature()
        raise CommandError(f"{error.message}: add --signature NAME", USAGE) from error
    if asks_by_name or (found.inputs and not is_wanted):
        # Its names are understood, but it asks for nothing.
        called = _called(found)
        return CalledSignature(None, called.inputs, called.outputs)
    return _called(found)


def _function(source: GraphSource, signature: str | None, name: str) -> SignatureFacts:
    """The signature of a SavedModel's function; CommandError (usage) where it cannot be called."""
    if signature is not None:
        raise CommandError("--function and --signature both say what to call; choose one", USAGE)
    functions = functions_in(source)
    if name not in functions:
        known = ", ".join(functions) or "none"
        raise CommandError(f"--function {name}: there is no such function (there are: {known})", USAGE)
    try:
        facts: SignatureFacts = functions[name].signature()
    except OpError as error:
        raise CommandError(f"--function {name}: {error.message}", USAGE) from error
    return facts


def functions_in(source: GraphSource) -> dict[str, ModelFunction]:
    """{name: function} of what TensorFlow 2 saved as functions; empty for other graphs."""
    if source.saved is None:
        return {}
    from flowengine.saved_model.functions import functions_of

    return {name: each for name, each in functions_of(source.saved, _never).items() if each.concrete}


def _never(*_: object) -> None:
    raise AssertionError("the shell runs functions as parts of the graph")


def _called(facts: SignatureFacts) -> CalledSignature:
    return CalledSignature(facts, _tensors(facts.inputs), _tensors(facts.outputs))


def _tensors(side: Mapping[str, SignatureTensor]) -> dict[str, str]:
    """{name: tensor}; the parts of one that is several tensors are `name.indices` or `name.0`."""
    found = {}
    for name, each in side.items():
        if not (each.is_sparse or each.is_composite):
            found[name] = each.tensors[0]
            continue
        parts = ("indices", "values", "dense_shape") if each.is_sparse else map(str, range(len(each.tensors)))
        found |= {f"{name}.{part}": tensor for part, tensor in zip(parts, each.tensors, strict=True)}
    return found


def signature_lines(signatures: Mapping[str, SignatureFacts], path: str, shown: int) -> list[str]:
    """Lines that say how a SavedModel may be called, and a command that does."""
    lines = ["signatures:"]
    for facts in list(signatures.values())[:shown]:
        lines.append(f"  {printable(facts.name)}")
        for word, side in (("takes", facts.inputs), ("gives", facts.outputs)):
            lines += [f"    {word} {printable(name)}  {each}" for name, each in side.items()]
    if len(signatures) > shown:
        lines.append(f"  and {len(signatures) - shown} more: flowengine inspect {printable(path)}")
    return [*lines, "to go on:", "  " + " ".join(_example(signatures, path))]


def _example(signatures: Mapping[str, SignatureFacts], path: str) -> Sequence[str]:
    from flowengine.saved_model.model import default_signature

    parts = ["flowengine run", quoted(path)]
    try:
        facts = signatures[default_signature(signatures)]
    except InvalidArgumentError:
        facts = next(iter(signatures.values()))
        parts.append(f"--signature {quoted(facts.name)}")
    return parts + [f"--feed {quoted(f'{name}=SOURCE')}" for name in _tensors(facts.inputs)]


def quoted(text: str) -> str:
    """A word for the shell: what it would take apart or replace is in quotes."""
    return shlex.quote(printable(text))
