"""The definitions of this package's ops as they are written, and the function that writes them down.

    define("Square(x: T) -> y: T", "T: signedtype", Elementwise(), shape=unchanged)

    @define("Roll(input: T, shift: Tshift, axis: Taxis) -> output: T", "T: type; Tshift, Taxis: indextype")
    def roll(c: ShapeContext) -> Shapes:
        ...

A shape function of its own stands beneath its ops; one that many share is named. Ops that differ in nothing
but their names may stand together: `ArgMax, ArgMin(input: T, ...`. `ir.optext` says what the text may be. It
is read when the op is first asked for: `load.registry()` is whom others ask.
"""

from __future__ import annotations

from typing import Final, TypeVar

from flowengine.core.errors import InvalidArgumentError
from flowengine.ir.opdef import OpDef, ShapeFunction
from flowengine.ir.traits import Trait

OwnShapeFunction = TypeVar("OwnShapeFunction", bound=ShapeFunction)


class WrittenOp:
    """The written form of one op, or of several by name; as a decorator it takes their shape function."""

    __slots__ = ("arguments", "said", "shape")

    def __init__(self, arguments: str, said: tuple[str | Trait, ...], shape: ShapeFunction | None) -> None:
        self.arguments = arguments
        self.said = said
        self.shape = shape

    def __call__(self, shape: OwnShapeFunction) -> OwnShapeFunction:
        self.shape = shape
        return shape

    def read(self, name: str) -> OpDef:
        """The definition; InvalidArgumentError for text that cannot be read, or traits that contradict it."""
        return OpDef.parse(f"{name}({self.arguments}", *self.said, shape=self.shape)


#: {op: its definition}, of the modules that are loaded
WRITTEN: Final[dict[str, WrittenOp]] = {}


def define(signature: str, *said: str | Trait, shape: ShapeFunction | None = None) -> WrittenOp:
    """Add an op. InvalidArgumentError if the name is taken.

    signature   `Name(inputs) -> outputs`; several names for ops that are alike
    said        attributes, one or several in each text; then what the op is, as far as the signature does not
                show it: see `ir.traits`
    """
    names, _, arguments = signature.partition("(")
    written = WrittenOp(arguments, said, shape)
    for name in names.split(", "):
        if WRITTEN.setdefault(name, written) is not written:
            raise InvalidArgumentError(f"op '{name}' is already defined by this package")
    return written
