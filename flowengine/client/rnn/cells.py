"""Cells that compute: basic, LSTM in its variants, GRU.

Activations are functions of a tensor or their names, such as "relu"; `tanh` unless they are given.
Initializers, functions of `fe.initializers` or their names, are those of the variable scope unless they are
given; a bias is zero at first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from flowengine.client.named import activation_of, check_functions
from flowengine.client.rnn.cell import RNNCell, depth
from flowengine.core.errors import InvalidArgumentError
from flowengine.graphs.graph import Graph
from flowengine.graphs.tensor import Tensor
from flowengine.graphs.variables import initializers

#: A function of a tensor, such as `fe.nn.relu`, or its name, "relu".
CellActivation: TypeAlias = Callable[[Tensor], Tensor] | str


class LSTMStateTuple(NamedTuple):
    """The state of an LSTM: memory `c`, and output `h`; each a tensor (N, size), or a size.

    >>> fe.rnn.LSTMCell(32).state_size
    LSTMStateTuple(c=32, h=32)
    """

    c: Any
    h: Any


def _joined(graph: Graph, *parts: Tensor) -> Tensor:
    result: Tensor = graph.ops.ConcatV2(list(parts), 1)
    return result


def _affine(graph: Graph, x: Tensor, kernel: Tensor, bias: Tensor | None) -> Tensor:
    result: Tensor = graph.ops.MatMul(x, kernel)
    if bias is not None:
        result = graph.ops.BiasAdd(result, bias)
    return result


def _tanh(x: Tensor) -> Tensor:
    result: Tensor = x.graph.ops.Tanh(x)
    return result


def _activation(given: CellActivation | None) -> Callable[[Tensor], Tensor]:
    """The function that a cell applies: tanh unless another one is given."""
    if given is None:
        return _tanh
    return activation_of(given) or _unchanged


def _unchanged(x: Tensor) -> Tensor:
    return x


def _sigmoid(x: Tensor) -> Tensor:
    result: Tensor = x.graph.ops.Sigmoid(x)
    return result


class BasicRNNCell(RNNCell):
    """`h' = activation([x, h] @ kernel + bias)`; kernel (I + units, units).

    Inputs (N, I) and state (N, units) of one type of floats; I is known, else InvalidArgumentError.
    """

    def __init__(
        self, units: int, *, activation: CellActivation | None = None, name: str | None = None
    ) -> None:
        super().__init__("basic_rnn_cell", name)
        self._units, self._activation = units, _activation(activation)

    @property
    def state_size(self) -> int:
        return self._units

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        dtype = inputs.dtype.base
        width = depth("BasicRNNCell", inputs) + self._units
        kernel = self._weight("kernel", [width, self._units], dtype)
        bias = self._weight("bias", [self._units], dtype, initializers.zeros())
        output = self._activation(_affine(graph, _joined(graph, inputs, state), kernel, bias))
        return output, output


class GRUCell(RNNCell):
    """Gated recurrent unit (Cho et al. 2014).

    r, u = sigmoid([x, h] @ gates/kernel + gates/bias); c = activation([x, r*h] @ candidate/kernel + ...);
    h' = u*h + (1-u)*c. The bias of the gates is one at first.

    Inputs (N, I) and state (N, units) of one type of floats; I is known, else InvalidArgumentError.
    """

    def __init__(
        self,
        units: int,
        *,
        activation: CellActivation | None = None,
        kernel_initializer: Any = None,
        bias_initializer: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__("gru_cell", name)
        self._units, self._activation = units, _activation(activation)
        check_functions({"kernel_initializer": kernel_initializer, "bias_initializer": bias_initializer})
        self._kernel_initializer, self._bias_initializer = kernel_initializer, bias_initializer

    @property
    def state_size(self) -> int:
        return self._units

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Tensor, Tensor]:
        ops, dtype, units = graph.ops, inputs.dtype.base, self._units
        width = depth("GRUCell", inputs) + units
        first, later = self._bias_initializer, self._bias_initializer
        made = self._kernel_initializer
        gate_kernel = self._weight("gates/kernel", [width, 2 * units], dtype, made)
        gate_bias = self._weight("gates/bias", [2 * units], dtype, first or initializers.ones())
        kernel = self._weight("candidate/kernel", [width, units], dtype, made)
        bias = self._weight("candidate/bias", [units], dtype, later or initializers.zeros())
        gates = _sigmoid(_affine(graph, _joined(graph, inputs, state), gate_kernel, gate_bias))
        reset, update = ops.Split(1, gates, num_split=2)
        candidate = _affine(graph, _joined(graph, inputs, ops.Mul(reset, state)), kernel, bias)
        candidate = self._activation(candidate)
        kept = ops.Mul(update, state)
        output = ops.Add(kept, ops.Mul(ops.Sub(1.0, update), candidate))
        return output, output


class LSTMCell(RNNCell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997), with peepholes and a projection if wanted.

    units           of the memory
    use_peepholes   gates see the memory by `w_f_diag`, `w_i_diag`, `w_o_diag` (Gers and Schmidhuber 2000)
    cell_clip       memory is kept within minus this and this
    num_proj        outputs are projected to this size by `projection/kernel` (Sak et al. 2014)
    proj_clip       projected outputs are kept within minus this and this
    forget_bias     added to the forget gate

    kernel (I + output_size, 4 * units), bias (4 * units,): input gate, candidate, forget gate, output gate.
    The state is an `LSTMStateTuple`.

    Inputs (N, I) of floats, I known, else InvalidArgumentError; the state is an `LSTMStateTuple` of their
    type.
    """

    def __init__(
        self,
        units: int,
        *,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        forget_bias: float = 1.0,
        activation: CellActivation | None = None,
        initializer: Any = None,
        name: str | None = None,
        default_name: str = "lstm_cell",
    ) -> None:
        super().__init__(default_name, name)
        check_functions({"cell_initializer": initializer})
        self._units, self._activation, self._initializer = units, _activation(activation), initializer
        self._peepholes, self._forget_bias = use_peepholes, forget_bias
        self._cell_clip, self._proj, self._proj_clip = cell_clip, num_proj, proj_clip

    @property
    def state_size(self) -> LSTMStateTuple:
        return LSTMStateTuple(self._units, self.output_size)

    @property
    def output_size(self) -> int:
        return self._units if self._proj is None else self._proj

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        ops, dtype, units = graph.ops, inputs.dtype.base, self._units
        memory, last = state
        width = depth("LSTMCell", inputs) + self.output_size
        kernel = self._weight("kernel", [width, 4 * units], dtype, self._initializer)
        bias = self._weight("bias", [4 * units], dtype, initializers.zeros())
        gates = _affine(graph, _joined(graph, inputs, last), kernel, bias)
        let_in, candidate, forget, let_out = ops.Split(1, gates, num_split=4)
        forget = ops.Add(forget, self._forget_bias)
        if self._peepholes:
            forget = ops.Add(forget, ops.Mul(self._diagonal("w_f_diag", dtype), memory))
            let_in = ops.Add(let_in, ops.Mul(self._diagonal("w_i_diag", dtype), memory))
        kept = ops.Mul(_sigmoid(forget), memory)
        memory = ops.Add(kept, ops.Mul(_sigmoid(let_in), self._activation(candidate)))
        if self._cell_clip is not None:
            memory = _clipped(graph, memory, self._cell_clip)
        if self._peepholes:
            let_out = ops.Add(let_out, ops.Mul(self._diagonal("w_o_diag", dtype), memory))
        output = ops.Mul(_sigmoid(let_out), self._activation(memory))
        if self._proj is not None:
            across = self._weight("projection/kernel", [units, self._proj], dtype, self._initializer)
            output = ops.MatMul(output, across)
            if self._proj_clip is not None:
                output = _clipped(graph, output, self._proj_clip)
        return output, LSTMStateTuple(memory, output)

    def _diagonal(self, name: str, dtype: Any) -> Tensor:
        return self._weight(name, [self._units], dtype, self._initializer)


class BasicLSTMCell(LSTMCell):
    """An `LSTMCell` without extras, under the name of TensorFlow's basic one: `basic_lstm_cell/kernel`.

    Inputs (N, I) of floats, I known, else InvalidArgumentError; the state is an `LSTMStateTuple` of their
    type.
    """

    def __init__(
        self,
        units: int,
        *,
        forget_bias: float = 1.0,
        activation: CellActivation | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(
            units,
            forget_bias=forget_bias,
            activation=activation,
            name=name,
            default_name="basic_lstm_cell",
        )


class LayerNormLSTMCell(RNNCell):
    """An LSTM whose gates and memory are normalised by example (Ba, Kiros and Hinton 2016).

    Variables: `kernel` (I + units, 4 * units), and a `gamma` and `beta` (units,) of each of `input`,
    `transform`, `forget`, `output` and `state`. The state is an `LSTMStateTuple`.

    Inputs (N, I) of floats, I known, else InvalidArgumentError; the state is an `LSTMStateTuple` of their
    type.
    """

    def __init__(
        self,
        units: int,
        *,
        forget_bias: float = 1.0,
        activation: CellActivation | None = None,
        norm_gain: float = 1.0,
        norm_shift: float = 0.0,
        name: str | None = None,
    ) -> None:
        super().__init__("layer_norm_basic_lstm_cell", name)
        self._units, self._activation, self._forget_bias = units, _activation(activation), forget_bias
        self._gain, self._shift = norm_gain, norm_shift

    @property
    def state_size(self) -> LSTMStateTuple:
        return LSTMStateTuple(self._units, self._units)

    @property
    def output_size(self) -> int:
        return self._units

    def call(self, graph: Graph, inputs: Any, state: Any) -> tuple[Tensor, LSTMStateTuple]:
        ops, dtype, units = graph.ops, inputs.dtype.base, self._units
        memory, last = state
        kernel = self._weight("kernel", [depth("LayerNormLSTMCell", inputs) + units, 4 * units], dtype)
        gates = ops.Split(1, _affine(graph, _joined(graph, inputs, last), kernel, None), num_split=4)
        let_in, candidate, forget, let_out = (
            self._normalized(graph, gate, name)
            for gate, name in zip(gates, ("input", "transform", "forget", "output"), strict=True)
        )
        kept = ops.Mul(memory, _sigmoid(ops.Add(forget, self._forget_bias)))
        memory = ops.Add(kept, ops.Mul(_sigmoid(let_in), self._activation(candidate)))
        memory = self._normalized(graph, memory, "state")
        output = ops.Mul(self._activation(memory), _sigmoid(let_out))
        return output, LSTMStateTuple(memory, output)

    def _normalized(self, graph: Graph, x: Tensor, name: str) -> Tensor:
        ops, dtype = graph.ops, x.dtype.base
        gamma = self._weight(f"{name}/gamma", [self._units], dtype, initializers.constant(self._gain))
        beta = self._weight(f"{name}/beta", [self._units], dtype, initializers.constant(self._shift))
        mean = ops.Mean(x, [1], keep_dims=True)
        variance = ops.Mean(ops.SquaredDifference(x, ops.StopGradient(mean)), [1], keep_dims=True)
        # So small that it only keeps the root of 0 away, as in TensorFlow's cell.
        factor = ops.Mul(ops.Rsqrt(ops.Add(variance, 1e-12)), gamma)
        result: Tensor = ops.Add(ops.Mul(x, factor), ops.Sub(beta, ops.Mul(mean, factor)))
        return result


def _clipped(graph: Graph, x: Tensor, limit: float) -> Tensor:
    if limit <= 0:
        raise InvalidArgumentError(f"cell_clip or proj_clip is {limit}: it must be positive")
    result: Tensor = graph.ops.ClipByValue(x, -limit, limit)
    return result
