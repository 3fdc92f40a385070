"""Optimizers, `fe.optimizers`: they change a graph's variables so that a loss decreases.

`learning_rate`, and other numbers of a step, are Python numbers, () Tensors or variables; `name` is the scope
of the nodes; `use_locking` is written into the nodes for TensorFlow. `initial_accumulator_value` is the start
of a slot that sums squares; `l1` and `l2` are strengths of regularisation.

>>> optimizers, graph = fe.optimizers, fe.Graph()
>>> step = graph.variable(0, name="global_step", dtype="int64", trainable=False)
>>> w = graph.variable([4.0, -2.0], name="w")
>>> loss = fe.reduce_sum(fe.square(w))
>>> adam = optimizers.Adam(0.1)
>>> train = adam.minimize(loss, global_step=step)
>>> adam.slot(w, "m").name, [each.name for each in adam.variables()]
('w/Adam:0', ['beta1_power:0', 'beta2_power:0', 'w/Adam:0', 'w/Adam_1:0'])
>>> pairs = [(fe.clip_by_norm(grad, 1.0), each) for grad, each in adam.compute_gradients(loss)]
>>> clipped = adam.apply_gradients(pairs)
>>> others = [optimizers.SGD(0.1), optimizers.Momentum(0.1, 0.9, nesterov=True), optimizers.RMSProp(0.1)]
>>> others += [optimizers.AdamW(0.01), optimizers.AdaGrad(0.1), optimizers.AdaDelta(), optimizers.FTRL(0.1)]
>>> others += [optimizers.ProximalSGD(0.1, l1=0.1), optimizers.ProximalAdaGrad(0.1, l2=0.1)]
>>> others += [optimizers.AdaGradDA(0.1, step), optimizers.get("adam", learning_rate=0.01)]
>>> steps = [each.minimize(loss) for each in others]
>>> scaling = optimizers.LossScaling(optimizers.Adam(0.1))
>>> scaled = scaling.apply_gradients(scaling.compute_gradients(loss))
>>> scaling.scale(graph).name
'current_loss_scale:0'
"""

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
