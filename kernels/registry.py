"""Kernels and the registry that finds them.

    @kernel("MatMul")
    def mat_mul(xp, a, b, *, transpose_a, transpose_b):
        ...

A kernel takes the array module first if its first parameter is called `xp`, then its inputs by position
(a list input is one tuple), then by keyword exactly the attributes that it names, bound once when the
plan is made. Three keywords are not attributes: `ctx` is the step's `KernelContext`, `node` the `Node`
(bound with the attributes), `num_outputs` the node's count of outputs. One output is returned as it is,
several as a tuple in OpDef order with lists flattened, none as None.

An `async def` kernel may wait, and sees cancellation only where it does. `nowait` is its form for when
it need not: a plain function with the same parameters that returns `WOULD_WAIT`, with nothing changed,
where it would have to.

A *provider* is a library that can do some of what NumPy does, faster: its kernels stand in front of
NumPy's, and each is made for a node together with the NumPy kernel of that node, to which it hands the
calls that it does not take.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias, TypeVar

from flowengine.core.dtypes import DType, as_dtype
from flowengine.core.errors import InvalidArgumentError, NotFoundError
from flowengine.ir.graph import Node

#: Estimated microseconds of a call, from its inputs (as the kernel gets them).
CostEstimate: TypeAlias = Callable[..., float]
#: (node, the kernel behind, bound to it) -> the node's kernel, which calls that one where it must.
Maker: TypeAlias = Callable[[Node, Callable[..., Any]], Callable[..., Any]]
KernelFunction = TypeVar("KernelFunction", bound=Callable[..., Any])

_NOT_ATTRIBUTES: Final = frozenset({"ctx", "node", "num_outputs"})


@dataclass(frozen=True, slots=True, eq=False)
class Kernel:
    """One op's computation for one device type.

    types      {type attr: the dtypes it may have}; None allows what the OpDef allows
    provider   the library behind it; `numpy` is always there
    supports   whether it can serve a node, from its attributes
    host       names of arguments and results that stay in host memory on an accelerator
    fresh      whether every output is new memory that nothing else refers to
    heavy      False: constant time however large (views); a function: microseconds from the inputs;
               None: judged by the bytes of the inputs
    inline     an expression of NumPy scalars with the same result, to the last bit, that generated code may
               write instead of a call: `{0}`, `{1}` are the operands, `{f}` the bound function
    nowait     see the module
    maker      makes a provider's kernel of a node; what `function` is for the others
    """

    op: str
    function: Callable[..., Any]
    device: str
    provider: str
    types: Mapping[str, frozenset[DType]] | None
    supports: Callable[[Mapping[str, Any]], bool] | None
    host: frozenset[str]
    fresh: bool
    heavy: CostEstimate | bool | None
    inline: str | None
    nowait: Callable[..., Any] | None
    takes_xp: bool
    takes_context: bool
    is_async: bool
    attr_names: tuple[str, ...]
    maker: Maker | None = None

    def serves(self, node: Node) -> bool:
        """Whether it can compute this node, by its types and attributes."""
        if self.types is not None:
            for attr, allowed in self.types.items():
                value = node.attrs.get(attr)
                values = value if isinstance(value, tuple) else (value,)
                if any(isinstance(v, DType) and v.base not in allowed for v in values):
                    return False
        return self.supports is None or self.supports(node.attrs)

    def bind(self, node: Node, xp: Any) -> Callable[..., Any]:
        """The function with array module and attributes in place: inputs (and `ctx`) remain."""
        bound = self._bind(self.function, node, xp)
        return bound if self.maker is None else self.maker(node, bound)

    def before(self, behind: Kernel) -> Kernel:
        """A provider's kernel in front of the one that takes what it does not."""
        heavy = behind.heavy if self.heavy is None else self.heavy
        return replace(behind, provider=self.provider, maker=self.maker, heavy=heavy, inline=None)

    def bind_nowait(self, node: Node, xp: Any) -> Callable[..., Any] | None:
        return None if self.nowait is None else self._bind(self.nowait, node, xp)

    def _bind(self, function: Callable[..., Any], node: Node, xp: Any) -> Callable[..., Any]:
        keywords: dict[str, Any] = {}
        for name in self.attr_names:
            if name == "node":
                keywords[name] = node
            elif name == "num_outputs":
                keywords[name] = len(node.output_types)
            else:
                keywords[name] = node.attrs[name]
        if self.takes_xp:
            return functools.partial(function, xp, **keywords)
        return functools.partial(function, **keywords) if keywords else function


class KernelRegistry:
    """(op, device type) -> kernels, in the order of preference in which they are tried."""

    def __init__(self, parent: KernelRegistry | None = None) -> None:
        self._kernels: dict[tuple[str, str], list[Kernel]] = {}
        self._parent = parent

    def register(self, kernel: Kernel, *, first: bool = False) -> Kernel:
        entries = self._kernels.setdefault((kernel.op, kernel.device), [])
        entries.insert(0, kernel) if first else entries.append(kernel)
        return kernel

    def candidates(self, op: str, device: str = "CPU") -> Sequence[Kernel]:
        own = self._kernels.get((op, device), [])
        return [*own, *self._parent.candidates(op, device)] if self._parent is not None else own

    def has(self, op: str, device: str = "CPU") -> bool:
        return bool(self.candidates(op, device))

    def find(self, node: Node, device: str = "CPU") -> Kernel:
        """The first kernel that serves the node.

        Raises NotFoundError with `missing_op` set where the op has none on this device type, and
        InvalidArgumentError listing what there is where none fits the node's types.
        """
        tried = self.candidates(node.op, device)
        provided: Kernel | None = None
        for kernel in tried:
            if not kernel.serves(node):
                continue
            if kernel.maker is None:
                return kernel if provided is None or kernel.takes_context else provided.before(kernel)
            provided = provided or kernel
        types = {k: str(v) for k, v in node.attrs.items() if isinstance(v, DType)}
        if not tried:
            missing = NotFoundError(
                f"No OpKernel was registered to support Op '{node.op}' on {device} (node '{node.name}')"
            )
            missing.missing_op = node.op
            raise missing
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
        raise error

    def providers(self) -> tuple[str, ...]:
        """The names of those that may claim parts of a graph, in the order in which they are asked."""
        return ("numpy",) if self._parent is None else self._parent.providers()

    def inside(self, call: Node) -> KernelRegistry:
        """The kernels for what a function call runs: these, unless they keep account of who ran them."""
        return self

    def __iter__(self) -> Iterator[Kernel]:
        for entries in self._kernels.values():
            yield from entries
        if self._parent is not None:
            yield from self._parent

    def register_provided(
        self,
        *ops: str,
        maker: Maker,
        provider: str,
        types: Mapping[str, Iterable[Any]],
        supports: Callable[[Mapping[str, Any]], bool] | None = None,
        heavy: CostEstimate | None = None,
        device: str = "CPU",
    ) -> None:
        """Register what makes a provider's kernels of these ops; see `Kernel` for the arguments."""
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
                    host=frozenset(),
                    fresh=False,
                    heavy=heavy,
                    inline=None,
                    nowait=None,
                    takes_xp=False,
                    takes_context=False,
                    is_async=False,
                    attr_names=(),
                    maker=maker,
                )
            )

    def kernel(
        self,
        *ops: str,
        device: str = "CPU",
        types: Mapping[str, Iterable[Any]] | None = None,
        provider: str = "numpy",
        supports: Callable[[Mapping[str, Any]], bool] | None = None,
        host: Iterable[str] = (),
        fresh: bool = False,
        heavy: CostEstimate | bool | None = None,
        inline: str | None = None,
        nowait: Callable[..., Any] | None = None,
    ) -> Callable[[KernelFunction], KernelFunction]:
        """Decorate a function as the kernel of one op or of several; see `Kernel` for the arguments."""
        allowed = (
            None if types is None else {a: frozenset(as_dtype(t) for t in ts) for a, ts in types.items()}
        )

        def register(function: KernelFunction) -> KernelFunction:
            parameters = inspect.signature(function).parameters
            keywords = [p.name for p in parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
            for op in ops:
                self.register(
                    Kernel(
                        op=op,
                        function=function,
                        device=device,
                        provider=provider,
                        types=allowed,
                        supports=supports,
                        host=frozenset(host),
                        fresh=fresh,
                        heavy=heavy,
                        inline=inline,
                        nowait=nowait,
                        takes_xp=next(iter(parameters), None) == "xp",
                        takes_context="ctx" in keywords,
                        is_async=inspect.iscoroutinefunction(function),
                        attr_names=tuple(k for k in keywords if k != "ctx"),
                    )
                )
            return function

        return register


#: The kernels of this package; `load.load_all()` fills it.
REGISTRY: Final = KernelRegistry()
kernel: Final = REGISTRY.kernel
