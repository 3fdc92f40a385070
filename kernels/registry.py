"""Kernels and the registry that finds them.

    @kernel("MatMul")
    def mat_mul(xp, a, b, *, transpose_a, transpose_b):
        ...

A kernel takes the array module first if its first parameter is called `xp`, then its inputs by position
(a list input is one tuple), then by keyword exactly the attributes that it names, bound once when the
plan is made. Three keywords are not attributes: `ctx` is the step's `KernelContext`, `node` the `Node`
(bound with the attributes), `num_outputs` the node's count of outputs. One output is returned as it is,
several as a tuple in OpDef order with lists flattened, none as None.

An `async def` kernel may wait, and is cancelled only while it waits. `nowait` is a plain function with the
same parameters, which the engine calls first. If the kernel would have to wait, it changes nothing and
returns `WOULD_WAIT`.

A *provider* is a library that computes some ops faster than NumPy: its kernels come before NumPy's. Each is
made for a node together with the kernel that would serve the node otherwise, and passes the calls that it
does not take to that kernel.

A kernel is for one device type, or for any (`device=None`): its arrays are then those of its module `xp`, or
come from the methods of its inputs. The search for the kernel of an op begins in the nearest registry, a
user's before this package's. In each registry, kernels for the device's type come first, in the order of
registration, then those for any type. The first kernel counts that takes the node's types and attributes,
if the device can hold all values that the kernel needs in its memory.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import EllipsisType
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar

import numpy as np

from flowengine.core.arrays import Value, is_numpy
from flowengine.core.dtypes import DType, as_dtype, resource
from flowengine.core.errors import InvalidArgumentError, NotFoundError, OpError
from flowengine.ir.graph import Node
from flowengine.ir.opdef import OpRegistry
from flowengine.kernels.bound import with_keywords
from flowengine.kernels.guarded import check_arguments, guarded, name_of

if TYPE_CHECKING:
    from flowengine.devices.device import Device

#: Estimated microseconds of a call, from its inputs (as the kernel gets them).
CostEstimate: TypeAlias = Callable[..., float]
#: (node, the kernel behind, bound to it) -> the node's kernel, which calls that one where it must.
Maker: TypeAlias = Callable[[Node, Callable[..., Any]], Callable[..., Any]]
#: (dtype, whether the kernel names it among its types) -> whether a device's memory can hold it.
Holds: TypeAlias = Callable[[DType, bool], bool]
KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])

_NOT_ATTRIBUTES: Final = frozenset({"ctx", "node", "num_outputs"})


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One op's computation for one device type, or for any.

    device     the type; None for any
    types      {type attr: its possible dtypes}; None for all that the OpDef allows
    provider   the library behind it; `numpy` is always there
    supports   a function of the attributes that returns whether it can serve a node
    host       names of arguments and results that stay in host memory on an accelerator
    fresh      whether every output is new memory that nothing else refers to
    heavy      False: constant time, such as a view; a function: microseconds from the inputs; None: estimated
               from the bytes of the inputs
    inline     an expression of NumPy scalars with the same result, to the last bit, that generated code may
               write instead of a call: `{0}`, `{1}` are the operands, `{f}` the bound function
    inline_any_rank  whether `inline` holds of arrays as well, so that no rank has to be known
    nowait     see the module
    maker      makes a provider's kernel for a node, instead of `function`
    one_core   whether that kernel uses only the thread that calls it; others use every core
    needs      raises if a library is missing that the kernel needs; called when a node is planned
    xp         the array module that it takes: the device's if it was found for a device
    is_foreign whether it is from outside of this package: then its results are checked (`guarded.py`)
    checks_shapes  whether their shapes are checked against the op's shape function, too
    looks      whether it reads values of its arrays, such as the size of its result: a device with memory
               of its own calls it on a thread, so that no event loop waits for the copy
    """

    op: str
    function: Callable[..., Any]
    device: str | None
    provider: str
    types: Mapping[str, frozenset[DType]] | None
    supports: Callable[[Mapping[str, Any]], bool] | None = None
    host: frozenset[str] = frozenset()
    fresh: bool = False
    heavy: CostEstimate | bool | None = None
    inline: str | None = None
    nowait: Callable[..., Any] | None = None
    takes_xp: bool = False
    takes_context: bool = False
    is_async: bool = False
    attr_names: tuple[str, ...] = ()
    maker: Maker | None = None
    needs: Callable[[], None] | None = None
    xp: Any = np
    is_foreign: bool = False
    checks_shapes: bool = False
    inline_any_rank: bool = False
    looks: bool = False
    one_core: bool = False

    def serves(self, node: Node) -> bool:
        """Whether it can compute this node, by its types and attributes."""
        if self.types is not None:
            for attr, allowed in self.types.items():
                value = node.attrs.get(attr)
                values = value if isinstance(value, tuple) else (value,)
                if any(isinstance(v, DType) and v.base not in allowed for v in values):
                    return False
        return self.supports is None or self.supports(node.attrs)

    def not_held(self, node: Node, holds: Holds) -> DType | None:
        """Return the type of an input or output that a device does not hold, or None; not of host memory."""
        definition = node.op_def
        for arg in () if definition is None else (*definition.inputs, *definition.outputs):
            if arg.name in self.host:
                continue
            attr = arg.type_attr or arg.type_list_attr
            listed = None if self.types is None or attr is None else self.types.get(attr)
            for dtype in arg.types(node.attrs):
                if dtype.base is resource:
                    continue  # a handle is in host memory, and its resource may be elsewhere
                if not holds(dtype.base, listed is not None and dtype.base in listed):
                    return dtype.base
        return None

    def bind(self, node: Node) -> Callable[..., Any]:
        """Return the function with array module and attributes bound: inputs (and `ctx`) remain.

        Raises InvalidArgumentError for a user's kernel with an argument that its op does not have.
        """
        if self.needs is not None:
            self.needs()
        if self.is_foreign:
            check_arguments(self.function, self.attr_names, self.takes_xp, node)
        bound = self._guard(self._bind(self.function, node), self.function, node)
        return bound if self.maker is None else self.maker(node, bound)

    def _guard(self, bound: Callable[..., Any], function: Any, node: Node) -> Callable[..., Any]:
        # The results of a ufunc are known, and generated code lets it write into its operands.
        if not self.is_foreign or (isinstance(function, np.ufunc) and not self.checks_shapes):
            return bound
        of_numpy = self.device in (None, "CPU") and is_numpy(self.xp)
        return guarded(bound, function, node, of_numpy=of_numpy, checks_shapes=self.checks_shapes)

    def over(self, xp: Any) -> Kernel:
        """Return the kernel with another array module; a ufunc becomes that module's own."""
        function = self.function
        if isinstance(function, np.ufunc):
            function = getattr(xp, function.__name__, function)
        return replace(self, function=function, xp=xp)

    def before(self, behind: Kernel) -> Kernel:
        """Return this kernel of a provider in front of another, which computes the calls that it refuses."""
        heavy = behind.heavy if self.heavy is None else self.heavy
        return replace(
            behind,
            provider=self.provider,
            maker=self.maker,
            one_core=self.one_core,
            heavy=heavy,
            inline=None,
        )

    def bind_nowait(self, node: Node) -> Callable[..., Any] | None:
        if self.nowait is None:
            return None
        return self._guard(self._bind(self.nowait, node), self.nowait, node)

    def _bind(self, function: Callable[..., Any], node: Node) -> Callable[..., Any]:
        keywords: dict[str, Any] = {}
        for name in self.attr_names:
            if name == "node":
                keywords[name] = node
            elif name == "num_outputs":
                keywords[name] = len(node.output_types)
            else:
                keywords[name] = node.attrs[name]
        bound = with_keywords(function, keywords)
        return functools.partial(bound, self.xp) if self.takes_xp else bound


def _check_may_wait(op: str) -> None:
    """Raise InvalidArgumentError if a kernel waits although its op's traits say that it only computes."""
    from flowengine.ops.load import registry

    definition = registry().get(op)
    traits = () if definition is None else definition.traits.values()
    pure = next((trait for trait in traits if trait.IS_OF_VALUES), None)
    if pure is not None:
        raise InvalidArgumentError(f"op '{op}' cannot be {pure}: its kernel waits")


class KernelRegistry:
    """Kernels of ops, in the order in which they are tried; see the module.

    parent   a registry for the ops that this one has no kernels of

    >>> from flowengine.kernels.load import load_all
    >>> ops, kernels = fe.OpRegistry(parent=fe.Graph().registry), fe.KernelRegistry(parent=load_all())
    >>> swish = ops.register(fe.OpDef.parse("Swish(x: T) -> y: T", "T: {float, double}"))
    >>> @kernels.kernel("Swish")
    ... def compute(xp, x):
    ...     return x / (1 + xp.exp(-x))
    >>> y = fe.Graph(registry=ops).ops.Swish(np.float32([0.0, 1.0]), name="y")
    >>> print(np.round(fe.testing.evaluate(y.graph, ["y:0"], kernels=kernels)[0], 2))
    [0.   0.73]
    >>> node = y.op.node
    >>> kernels.find(node) is kernels.candidates("Swish")[0], kernels.providers()
    (True, ('numpy',))
    >>> kernels.register_provided("Swish", maker=lambda node, behind: behind, provider="lib", types={})
    >>> kernels.serving(node).provider, kernels.check_ops(ops)
    ('lib', None)
    >>> kernels.placed(node, 1.0), kernels.unbound(node), kernels.inside(node) is kernels
    (1.0, None, True)

    Raises NotFoundError for an op or a device type without kernels, InvalidArgumentError for kernels that do
    not fit their ops.
    """

    #: The number of kernels registered anywhere; a new one invalidates earlier searches.
    _registered: ClassVar[int] = 0

    def __init__(self, parent: KernelRegistry | None = None) -> None:
        self._kernels: dict[tuple[str, str | None], list[Kernel]] = {}
        self._parent = parent
        #: {(op, device type): (kernels registered until then, candidates)}
        self._known: dict[tuple[str, str], tuple[int, Sequence[Kernel]]] = {}

    def register(self, kernel: Kernel, *, first: bool = False) -> Kernel:
        """Add a kernel; InvalidArgumentError if it waits although its op is nothing but a function."""
        if kernel.is_async:
            _check_may_wait(kernel.op)
        entries = self._kernels.setdefault((kernel.op, kernel.device), [])
        entries.insert(0, kernel) if first else entries.append(kernel)
        KernelRegistry._registered += 1
        return kernel

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        """Return the kernels of an op for a device type, the preferred first."""
        known = self._known.get((op, device))
        if known is None or known[0] != KernelRegistry._registered:
            found = self._look_up(op, device)
            known = self._known[op, device] = (KernelRegistry._registered, found)
        return known[1]

    def _look_up(self, op: str, device: str) -> Sequence[Kernel]:
        own = [*self._kernels.get((op, device), ()), *self._kernels.get((op, None), ())]
        return own if self._parent is None else [*own, *self._parent.candidates(op, device)]

    def has(self, op: str, device: str = "CPU") -> bool:
        return bool(self.candidates(op, device))

    def serving(self, node: Node, device: str = "CPU", holds: Holds | None = None) -> Kernel | None:
        """Return the first kernel that serves the node, a provider's in front of it; None if there is none.

        holds   which types the device's memory holds; None if it holds all
        """
        provided: Kernel | None = None
        for kernel in self.candidates(node.op, device):
            if not kernel.serves(node):
                continue
            if kernel.maker is not None:
                provided = provided or kernel
            elif holds is None or kernel.not_held(node, holds) is None:
                return kernel if provided is None or kernel.takes_context else provided.before(kernel)
        return None

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        """Return the kernel that serves the node.

        Raises NotFoundError with `missing_op` set if the op has none on this device type, and
        InvalidArgumentError listing the existing ones if none takes the node's types.
        """
        kernel = self.serving(node, device)
        if kernel is None:
            raise self._missing(node, device)
        return kernel

    def _missing(self, node: Node, device: str) -> OpError:
        tried = self.candidates(node.op, device)
        types = {k: str(v) for k, v in node.attrs.items() if isinstance(v, DType)}
        if not tried:
            missing = NotFoundError(
                f"No OpKernel was registered to support Op '{node.op}' on {device} (node '{node.name}')"
            )
            missing.missing_op = node.op
            return missing
        offers = "; ".join(
            k.provider
            + (
                ": " + ", ".join(f"{a} in {{{', '.join(sorted(map(str, t)))}}}" for a, t in k.types.items())
                if k.types
                else ""
            )
            for k in tried
        )
        error = InvalidArgumentError(
            f"No OpKernel was registered to support Op '{node.op}' with {types} on {device} "
            f"(node '{node.name}'); registered: {offers}"
        )
        error.missing_op = node.op
        return error

    def placed(self, node: Node, value: Value) -> Value:
        """Return the `value` of a constant's `node` in the memory where its consumers need it."""
        return value

    @property
    def hardware(self) -> Device | None:
        """The device that these kernels are of; None where they are the CPU's, or those of any device."""
        return None if self._parent is None else self._parent.hardware

    def unbound(self, node: Node) -> Kernel | None:
        """Return the kernel that serves a node on `hardware`, as it was registered.

        None for a node that is computed in host memory.
        """
        return None if self._parent is None else self._parent.unbound(node)

    def providers(self) -> tuple[str, ...]:
        """Return the names of the packages with `claims`, which take parts of a graph, in order."""
        return ("numpy",) if self._parent is None else self._parent.providers()

    def inside(self, call: Node) -> KernelRegistry:
        """Return the kernels for the function that the node `call` calls: these, unless they count runs."""
        return self

    def __iter__(self) -> Iterator[Kernel]:
        for entries in self._kernels.values():
            yield from entries
        if self._parent is not None:
            yield from self._parent

    def check_ops(self, known: OpRegistry) -> None:
        """Raise InvalidArgumentError if a user's kernel is for an op that is not `known`, such as a typo."""
        for kernel in (kernel for entries in self._kernels.values() for kernel in entries):
            if kernel.is_foreign and known.find(kernel.op) is None:
                raise InvalidArgumentError(
                    f"kernel {name_of(kernel.function)} is for op '{kernel.op}', which is not defined: "
                    "register its OpDef with the registry that the graph was made with"
                )
        if self._parent is not None:
            self._parent.check_ops(known)

    def register_provided(
        self,
        *ops: str,
        maker: Maker,
        provider: str,
        types: Mapping[str, Iterable[Any]],
        supports: Callable[[Mapping[str, Any]], bool] | None = None,
        heavy: CostEstimate | None = None,
        device: str = "CPU",
        one_core: bool = False,
    ) -> None:
        """Register a maker of a provider's kernels; arguments as in `flowengine.kernels.registry.Kernel`."""
        allowed = {attr: frozenset(as_dtype(t) for t in each) for attr, each in types.items()}
        for op in ops:
            self.register(
                Kernel(
                    op=op,
                    function=maker,
                    device=device,
                    provider=provider,
                    types=allowed,
                    supports=supports,
                    heavy=heavy,
                    maker=maker,
                    one_core=one_core,
                )
            )

    def kernel(
        self,
        *ops: str,
        device: str | EllipsisType | None = ...,
        types: Mapping[str, Iterable[Any]] | None = None,
        provider: str = "numpy",
        supports: Callable[[Mapping[str, Any]], bool] | None = None,
        host: Iterable[str] = (),
        fresh: bool = False,
        heavy: CostEstimate | bool | None = None,
        inline: str | None = None,
        inline_any_rank: bool = False,
        nowait: Callable[..., Any] | None = None,
        needs: Callable[[], None] | None = None,
        looks: bool = False,
    ) -> Callable[[KernelFunction], KernelFunction]:
        """Decorate a function as the kernel of `ops`; arguments as in `flowengine.kernels.registry.Kernel`.

        A kernel that takes `xp`, or is a ufunc, is for any device type unless `device` says otherwise; every
        other one is for CPUs.
        """
        allowed = (
            None if types is None else {a: frozenset(as_dtype(t) for t in ts) for a, ts in types.items()}
        )
        # The module that registers it decides whether it is a user's, because the function may be NumPy's.
        is_foreign = not sys._getframe(1).f_globals.get("__name__", "").startswith("flowengine.")

        def register(function: KernelFunction) -> KernelFunction:
            is_ufunc = isinstance(function, np.ufunc)  # without a signature before NumPy 2.4
            parameters = {} if is_ufunc else inspect.signature(function).parameters
            keywords = [p.name for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
            takes_xp = next(iter(parameters), None) == "xp"
            usual = None if takes_xp or is_ufunc else "CPU"
            for op in ops:
                self.register(
                    Kernel(
                        op=op,
                        function=function,
                        device=usual if isinstance(device, EllipsisType) else device,
                        provider=provider,
                        types=allowed,
                        supports=supports,
                        host=frozenset(host),
                        fresh=fresh,
                        heavy=heavy,
                        inline=inline,
                        inline_any_rank=inline_any_rank,
                        nowait=nowait,
                        takes_xp=takes_xp,
                        takes_context="ctx" in keywords,
                        is_async=inspect.iscoroutinefunction(function),
                        attr_names=tuple(k for k in keywords if k != "ctx"),
                        needs=needs,
                        is_foreign=is_foreign,
                        looks=looks,
                    )
                )
            return function

        return register


#: The kernels of this package; `load.load_all()` fills it.
REGISTRY: Final = KernelRegistry()
kernel: Final = REGISTRY.kernel
