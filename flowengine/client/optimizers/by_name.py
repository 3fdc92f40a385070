"""Optimizers by their names: `fe.optimizers.get("adam", learning_rate=0.01)`."""

from __future__ import annotations

from typing import Any, Final

from flowengine.client.named import unknown_name
from flowengine.client.optimizers.adagrad import AdaDelta, AdaGrad, AdaGradDA, ProximalAdaGrad
from flowengine.client.optimizers.adam import Adam, AdamW
from flowengine.client.optimizers.ftrl import FTRL
from flowengine.client.optimizers.optimizer import Optimizer
from flowengine.client.optimizers.plain import SGD, Momentum, ProximalSGD
from flowengine.client.optimizers.rmsprop import RMSProp
from flowengine.graphs.errors import ConstructionTypeError, ConstructionValueError, builds

#: {name in small letters: class}
_OPTIMIZERS: Final[dict[str, type[Optimizer]]] = {
    kind.__name__.lower(): kind
    for kind in (
        AdaDelta,
        AdaGrad,
        AdaGradDA,
        Adam,
        AdamW,
        FTRL,
        Momentum,
        ProximalAdaGrad,
        ProximalSGD,
        RMSProp,
        SGD,
    )
}


@builds
def get(optimizer: str | Optimizer, **options: Any) -> Optimizer:
    """Return an optimizer by its name in any case, made with these options; return an Optimizer unchanged.

    Options are those of its class: a learning rate, for example, is a number or a scalar Tensor. Raises
    InvalidArgumentError, which is a ValueError for an unknown name, with those that there are, and a
    TypeError for options that its class does not take, or beside an Optimizer that is made already.

        train = fe.optimizers.get("adam", learning_rate=0.01).minimize(loss)
    """
    if isinstance(optimizer, Optimizer):
        if options:
            raise ConstructionTypeError(
                f"{type(optimizer).__name__} is an optimizer: options {', '.join(options)} need its name"
            )
        return optimizer
    if not isinstance(optimizer, str):
        raise ConstructionTypeError(f"{optimizer!r} is no optimizer: give its name, or an Optimizer")
    kind = _OPTIMIZERS.get(optimizer.lower())
    if kind is None:
        raise ConstructionValueError(unknown_name("optimizer", optimizer.lower(), _OPTIMIZERS))
    try:
        return kind(**options)
    except TypeError as error:
        raise ConstructionTypeError(f"fe.optimizers.{kind.__name__}: {error}") from None


__all__ = ["get"]
