"""Optimizers, `fe.optimizers`: what changes a graph's variables so that a loss becomes less."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowengine.client.optimizers.adagrad import AdaDelta, AdaGrad, AdaGradDA, ProximalAdaGrad
from flowengine.client.optimizers.adam import Adam, AdamW
from flowengine.client.optimizers.by_name import get
from flowengine.client.optimizers.ftrl import FTRL
from flowengine.client.optimizers.lbfgs import LBFGSResult, lbfgs
from flowengine.client.optimizers.loss_scaling import LossScaling
from flowengine.client.optimizers.optimizer import Optimizer
from flowengine.client.optimizers.plain import SGD, Momentum, ProximalSGD
from flowengine.client.optimizers.rmsprop import RMSProp
from flowengine.core.public_names.missing import public_module

__all__ = [
    "FTRL",
    "SGD",
    "AdaDelta",
    "AdaGrad",
    "AdaGradDA",
    "Adam",
    "AdamW",
    "LBFGSResult",
    "LossScaling",
    "Momentum",
    "Optimizer",
    "ProximalAdaGrad",
    "ProximalSGD",
    "RMSProp",
    "get",
    "lbfgs",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = public_module(__name__, __all__)
