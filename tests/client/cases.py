"""Cases compared with TensorFlow 1.15: calls as data, read by `record.py` there and by the tests here.

Inputs are made from seeds by NumPy's legacy generator, whose streams do not change, so that only results are
recorded. Written for Python 3.7, which TensorFlow 1.15 runs on, and without an import of either library.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

#: Steps of training, and batches of a metric, after which values are compared.
STEPS = 20


def normal(seed: int, *shape: int, dtype: str = "float32") -> Any:
    return np.random.RandomState(seed).normal(size=shape).astype(dtype)


def uniform(seed: int, *shape: int, low: float = 0.0, high: float = 1.0, dtype: str = "float32") -> Any:
    return np.random.RandomState(seed).uniform(low, high, size=shape).astype(dtype)


def integers(seed: int, high: int, *shape: int, dtype: str = "int32") -> Any:
    return np.random.RandomState(seed).randint(high, size=shape).astype(dtype)


def one_hot(seed: int, rows: int, classes: int) -> Any:
    return np.eye(classes, dtype=np.float32)[integers(seed, classes, rows)]


def case(label: str, ours: str, tf: str, inputs: dict[str, Any], **options: Any) -> dict[str, Any]:
    """A label, our function below `fe`, TensorFlow's below `tf`, {argument: array}, further keywords."""
    return {"name": label, "ours": ours, "tf": tf, "inputs": inputs, "options": options}


WEIGHTS = {
    "none": None,
    "scalar": np.float32(0.3),
    "rows": np.array([[0.5], [0.0], [2.0], [1.0]], np.float32),
    "each": uniform(9, 4, 3) * (uniform(10, 4, 3) > 0.3),
    "zero": np.float32(0.0),
}
REDUCTIONS = (
    "none",
    "weighted_sum",
    "weighted_mean",
    "weighted_sum_over_batch_size",
    "weighted_sum_by_nonzero_weights",
)


def loss_cases() -> Iterator[dict[str, Any]]:
    pairs = {
        "absolute_difference": ("absolute_difference", normal(1, 4, 3), normal(2, 4, 3), {}),
        "mean_squared_error": ("mean_squared_error", normal(1, 4, 3), normal(2, 4, 3), {}),
        "huber": ("huber_loss", normal(1, 4, 3), normal(2, 4, 3), {"delta": 0.7}),
        "log": (
            "log_loss",
            1.0 * (uniform(1, 4, 3) > 0.5),
            uniform(2, 4, 3, low=0.1, high=0.9),
            {"epsilon": 1e-3},
        ),
        "hinge": ("hinge_loss", 1.0 * (uniform(1, 4, 3) > 0.5), normal(2, 4, 3), {}),
        "sigmoid_cross_entropy": (
            "sigmoid_cross_entropy",
            uniform(1, 4, 3),
            normal(2, 4, 3) * 4,
            {"label_smoothing": 0.2},
        ),
    }
    for ours, (theirs, labels, predictions, options) in sorted(pairs.items()):
        second = "logits" if ours in ("hinge", "sigmoid_cross_entropy") else "predictions"
        first = "multi_class_labels" if ours == "sigmoid_cross_entropy" else "labels"
        for weights, value in sorted(WEIGHTS.items()):
            for reduction in REDUCTIONS:
                inputs = {first: labels.astype(np.float32), second: predictions}
                if value is not None:
                    inputs["weights"] = value
                name = f"{ours}/{weights}/{reduction}"
                yield case(name, "losses." + ours, "losses." + theirs, inputs, reduction=reduction, **options)
    vectors = {"labels": normal(1, 4, 3), "predictions": normal(2, 4, 3)}
    rows = np.array([[1.0], [0.0], [0.5], [2.0]], np.float32)
    both = "losses.cosine_distance"
    yield case("cosine_distance/plain", both, both, vectors, axis=1)
    yield case("cosine_distance/rows", both, both, dict(vectors, weights=rows), axis=1)
    both = "losses.mean_pairwise_squared_error"
    yield case("pairwise/plain", both, both, vectors)
    yield case("pairwise/rows", both, both, dict(vectors, weights=rows))
    yield case("pairwise/each", both, both, dict(vectors, weights=WEIGHTS["each"]))
    yield case("pairwise/one", both, both, {"labels": normal(1, 4, 1), "predictions": normal(2, 4, 1)})
    both = "losses.softmax_cross_entropy"
    logits = normal(2, 4, 5) * 3
    for smoothing in (0, 0.1):
        inputs = {"onehot_labels": one_hot(1, 4, 5), "logits": logits}
        name = f"softmax/{smoothing}"
        yield case(name, both, both, inputs, label_smoothing=smoothing)
        yield case(name + "/rows", both, both, dict(inputs, weights=rows[:, 0]), label_smoothing=smoothing)
    cube = {"onehot_labels": one_hot(1, 6, 5).reshape(2, 3, 5), "logits": normal(2, 2, 3, 5)}
    yield case("softmax/cube", both, both, cube, reduction="none")
    both = "losses.sparse_softmax_cross_entropy"
    yield case("sparse/plain", both, both, {"labels": integers(1, 5, 4), "logits": logits})
    yield case(
        "sparse/column", both, both, {"labels": integers(1, 5, 4, 1), "logits": logits, "weights": rows}
    )
    yield case(
        "sparse/cube",
        both,
        both,
        {"labels": integers(1, 5, 2, 3), "logits": normal(2, 2, 3, 5)},
        reduction="none",
    )


def metric_cases() -> Iterator[dict[str, Any]]:
    """Inputs have a first axis of batches, an update of each metric for each."""
    row, n = np.array([[1.0, 0.5, 0.0, 2.0]] * STEPS, np.float32), STEPS

    def both(
        name: str, inputs: dict[str, Any], weights: Any = row, **options: Any
    ) -> Iterator[dict[str, Any]]:
        function, label = "metrics." + name, "/".join([name, *(str(v) for v in options.values())])
        yield case(label, function, function, inputs, **options)
        if weights is not None:
            yield case(label + "/weights", function, function, dict(inputs, weights=weights), **options)

    yield from both("mean", {"values": normal(1, n, 4)})
    yield from both("mean_tensor", {"values": normal(1, n, 4)})
    yield from both("percentage_below", {"values": normal(1, n, 4)}, threshold=0.2)
    classes = {
        "labels": integers(1, 3, n, 4, dtype="int64"),
        "predictions": integers(2, 3, n, 4, dtype="int64"),
    }
    yield from both("accuracy", classes)
    yield from both("mean_iou", classes, num_classes=4)
    yield from both("mean_per_class_accuracy", classes, num_classes=4)
    pair = {"labels": normal(1, n, 4), "predictions": normal(2, n, 4)}
    for name in ("mean_absolute_error", "mean_squared_error", "root_mean_squared_error"):
        yield from both(name, pair)
    divisor = uniform(3, n, 4) * np.array([1, 0, 1, 1], np.float32)
    yield from both("mean_relative_error", dict(pair, normalizer=divisor))
    vectors = {"labels": normal(1, n, 4, 2), "predictions": normal(2, n, 4, 2)}
    yield from both("mean_cosine_distance", vectors, row.reshape(n, 4, 1), dim=1)
    signs = {"labels": integers(1, 2, n, 4), "predictions": integers(2, 2, n, 4)}
    kinds = ("true_positives", "false_positives", "true_negatives", "false_negatives")
    for name in (*kinds, "precision", "recall"):
        yield from both(name, signs)
    likely = {"labels": integers(1, 2, n, 8), "predictions": uniform(2, n, 8)}
    wide = np.concatenate([row, row], axis=1)
    for name in (*kinds, "precision", "recall"):
        yield from both(name + "_at_thresholds", likely, wide, thresholds=[0.1, 0.5, 0.8])
    for curve in ("ROC", "PR"):
        for method in ("trapezoidal", "minoring", "majoring", "careful_interpolation"):
            if curve == "PR" or method != "careful_interpolation":
                yield from both("auc", likely, wide, num_thresholds=20, curve=curve, summation_method=method)
    yield from both("sensitivity_at_specificity", likely, wide, specificity=0.6, num_thresholds=20)
    yield from both("specificity_at_sensitivity", likely, wide, sensitivity=0.6, num_thresholds=20)
    ranked = {"labels": integers(1, 5, n, 4, 2, dtype="int64"), "predictions": normal(2, n, 4, 5)}
    ranked["labels"][0, 1] = [3, 3]
    for name in ("precision_at_k", "recall_at_k"):
        yield from both(name, ranked, k=2)
        yield from both(name, ranked, k=2, class_id=1)
    yield from both("average_precision_at_k", ranked, k=3)
    single = {"labels": integers(1, 5, n, 4, dtype="int64"), "predictions": normal(2, n, 4, 5)}
    function = "metrics.recall_at_k"
    yield case("recall_at_k/single", function, function, single, k=2)
    places = {"labels": ranked["labels"], "predictions_idx": np.argsort(normal(2, n, 4, 5))[..., :3]}
    for name in ("precision_at_top_k", "recall_at_top_k"):
        yield from both(name, places)
        yield from both(name, places, class_id=1)


SPARSE = {
    "indices": np.array([[0, 0], [0, 2], [1, 1], [2, 0], [2, 1], [2, 2]], np.int64),
    "dense_shape": np.array([3, 4], np.int64),
}
HOLES = {
    "indices": np.array([[0, 0], [0, 2], [2, 0], [2, 1], [4, 0], [4, 2]], np.int64),
    "dense_shape": np.array([5, 4], np.int64),
}


def embedding_cases() -> Iterator[dict[str, Any]]:
    """`params` are the parts of one table; `ids` and `weights` with `sparse` the values of sparse tensors."""
    tables = {
        "mod": [normal(1, 4, 3), normal(2, 3, 3), normal(3, 3, 3)],
        "div": [normal(1, 4, 3), normal(2, 3, 3), normal(3, 3, 3)],
        "one": [normal(1, 10, 3)],
    }
    for key, parts in sorted(tables.items()):
        options = {"partition_strategy": "div" if key == "div" else "mod"}
        inputs = {"params": parts, "ids": integers(5, 10, 2, 4, dtype="int64")}
        for norm in (None, 1.2):
            name, tf = f"lookup/{key}/{norm}", "nn.embedding_lookup"
            yield case(name, "embedding.lookup", tf, inputs, max_norm=norm, **options)
        for combiner in ("sum", "mean", "sqrtn"):
            inputs = {"params": parts, "ids": np.array([1, 4, 1, 9, 0, 4], np.int64), "sparse": SPARSE}
            ours, tf = "embedding.lookup_sparse", "nn.embedding_lookup_sparse"
            name = f"sparse/{key}/{combiner}"
            yield case(name, ours, tf, inputs, combiner=combiner, **options)
            inputs = dict(inputs, weights=np.array([1, 0.5, 2, 1, 3, -1], np.float32))
            yield case(name + "/weights", ours, tf, inputs, combiner=combiner, **options)
            inputs = dict(inputs, ids=np.array([1, 4, -1, 9, 0, 4], np.int64), sparse=HOLES)
            ours, tf = "embedding.safe_lookup_sparse", "nn.safe_embedding_lookup_sparse"
            yield case("safe/" + name, ours, tf, inputs, combiner=combiner, **options)
            yield case(
                "safe/" + name + "/default", ours, tf, inputs, combiner=combiner, default_id=2, **options
            )


def sampled_cases() -> Iterator[dict[str, Any]]:
    """Losses over samples that are given, so that both sides have the same."""
    drawn = [np.array([1, 4, 7, 4], np.int64), uniform(7, 5, 2, low=0.1), uniform(8, 4, low=0.1)]
    for strategy in ("mod", "div"):
        for function in ("sampled_softmax_loss", "nce_loss"):
            for hits in (False, True):
                for true in (1, 2):
                    inputs = {
                        "weights": [normal(1, 5, 3), normal(2, 5, 3)],
                        "biases": normal(3, 10),
                        "labels": integers(4, 10, 5, true, dtype="int64"),
                        "inputs": normal(5, 5, 3),
                        "drawn": [drawn[0], drawn[1][:, :true], drawn[2]],
                    }
                    ours = {"sampled_softmax_loss": "sampled.softmax_loss", "nce_loss": "sampled.nce_loss"}[
                        function
                    ]
                    name = f"{function}/{strategy}/{hits}/{true}"
                    yield case(
                        name,
                        ours,
                        "nn." + function,
                        inputs,
                        num_sampled=4,
                        num_classes=10,
                        num_true=true,
                        partition_strategy=strategy,
                        remove_accidental_hits=hits,
                    )


def layer_cases() -> Iterator[dict[str, Any]]:
    """A layer of `inputs`, its variables set by `initial`, trained for `STEPS`; see `record.py`.

    A regulariser is told by its factor of the sum of squares.
    """
    rows, cube = normal(1, 4, 3), normal(1, 2, 5, 3)
    image, volume = normal(1, 2, 6, 5, 3), normal(1, 1, 4, 5, 4, 2)

    def both(kind: str, label: str, x: Any, tf: str = "", **options: Any) -> Iterator[dict[str, Any]]:
        yield case(f"{kind}/{label}", "layers." + kind, tf or "layers." + kind, {"inputs": x}, **options)

    yield from both("dense", "plain", rows, units=4)
    yield from both("dense", "relu", rows, units=4, activation="relu", use_bias=False)
    yield from both("dense", "cube", cube, units=2, name="mine")
    yield from both(
        "dense",
        "regularizers",
        rows,
        units=4,
        activation="relu",
        activity_regularizer=0.1,
        kernel_regularizer=0.05,
        bias_regularizer=0.2,
    )
    yield from both("conv2d", "regularizers", image, filters=2, kernel_size=2, activity_regularizer=0.02)
    yield from both("flatten", "plain", cube)
    tf = "keras.layers.Embedding"
    yield from both("embedding", "plain", integers(1, 6, 2, 4), tf, vocabulary=6, units=3)
    for causal in (False, True):
        inputs = {"query": normal(1, 2, 4, 3), "keys": normal(2, 2, 4, 3), "values": normal(3, 2, 4, 2)}
        yield case(f"attention/{causal}", "layers.attention", "attention", inputs, causal=causal, scale=1.0)
    yield from both("dropout", "off", rows, rate=0.4)
    for name, x, rank in (("conv1d", cube, 1), ("conv2d", image, 2), ("conv3d", volume, 3)):
        for padding in ("same", "valid"):
            yield from both(name, padding, x, filters=2, kernel_size=3, padding=padding, activation="relu")
            size = [3, 2, 3][:rank]
            yield from both(
                name, padding + "/strides", x, filters=2, kernel_size=size, strides=2, padding=padding
            )
        if rank < 3:
            yield from both(name, "dilated", x, filters=2, kernel_size=2, dilation_rate=2)
    for padding in ("same", "valid"):
        for width in (2, 3):
            label, options = f"{padding}/{width}", {"kernel_size": width, "strides": 2, "padding": padding}
            yield from both("conv1d_transpose", label, cube, "conv1d_transpose", filters=2, **options)
    for name, x in (("conv2d_transpose", image), ("conv3d_transpose", volume)):
        for padding in ("same", "valid"):
            yield from both(name, padding, x, filters=2, kernel_size=3, strides=2, padding=padding)
    for name, x in (("separable_conv1d", cube), ("separable_conv2d", image)):
        for padding in ("same", "valid"):
            yield from both(name, padding, x, filters=2, kernel_size=3, padding=padding, depth_multiplier=2)
        yield from both(name, "strides", x, filters=2, kernel_size=2, strides=2, use_bias=False)
    tf = "keras.layers.DepthwiseConv2D"
    yield from both("depthwise_conv2d", "plain", image, tf, kernel_size=3, depth_multiplier=2, padding="same")
    for kind in ("max", "average"):
        for rank, x in ((1, cube), (2, image), (3, volume)):
            for padding in ("same", "valid"):
                name = f"{kind}_pooling{rank}d"
                yield from both(name, padding, x, pool_size=3, strides=2, padding=padding)
    for training in (False, True):
        for label, x in (("rows", rows), ("cube", cube), ("image", image)):
            name = f"{label}/{training}"
            yield from both("batch_normalization", name, x, training=training, momentum=0.9)
        yield from both(
            "batch_normalization",
            f"bare/{training}",
            rows,
            training=training,
            center=False,
            scale=False,
            epsilon=0.01,
        )
        yield from both("batch_normalization", f"plain/{training}", image, training=training, fused=False)
        yield from both("batch_normalization", f"axis/{training}", image, training=training, axis=2)
    tf = "keras.layers.LayerNormalization"
    yield from both("layer_normalization", "plain", cube, tf)
    yield from both("layer_normalization", "axes", cube, tf, axis=[1, 2], epsilon=0.01)
    yield from both("layer_normalization", "bare", rows, tf, center=False)


KEPT = {"input_keep_prob": 0.75, "output_keep_prob": 0.5, "state_keep_prob": 0.8125}


def rnn_cases() -> Iterator[dict[str, Any]]:
    """A cell, told as (kind, options) or (wrapper, cells), run over sequences; see `record.py`."""
    x, lengths = normal(1, 2, 4, 3), np.array([4, 2], np.int32)
    cells: dict[str, Any] = {
        "basic": ("basic", {"units": 4}),
        "gru": ("gru", {"units": 4}),
        "lstm": ("lstm", {"units": 4}),
        "lstm/all": (
            "lstm",
            {
                "units": 4,
                "use_peepholes": True,
                "num_proj": 2,
                "proj_clip": 0.1,
                "cell_clip": 0.2,
                "forget_bias": 0.5,
            },
        ),
        "basic_lstm": ("basic_lstm", {"units": 3}),
        "norm_lstm": ("norm_lstm", {"units": 4}),
        "residual": ("residual", ("gru", {"units": 3})),
        "multi": ("multi", [("lstm", {"units": 4}), ("gru", {"units": 2})]),
        "device": ("device", ("gru", {"units": 3})),
        # Drawn in each iteration, TensorFlow's numbers depend on the order in which threads come to them.
        "dropout/once": (
            "dropout",
            [{"seed": 5, "variational_recurrent": True, **KEPT}, ("lstm", {"units": 4})],
        ),
    }
    for label, cell in sorted(cells.items()):
        inputs = {"inputs": x, "sequence_length": lengths}
        yield case(f"cell/{label}", "dynamic_rnn", "dynamic_rnn", inputs, cell=cell)
    gru = ("gru", {"units": 4})
    yield case("whole", "dynamic_rnn", "dynamic_rnn", {"inputs": x}, cell=gru)
    yield case(
        "time_major",
        "dynamic_rnn",
        "dynamic_rnn",
        {"inputs": x, "sequence_length": integers(1, 2, 4)},
        cell=gru,
        time_major=True,
    )
    both = "bidirectional_dynamic_rnn"
    yield case("both_ways", both, both, {"inputs": x, "sequence_length": lengths}, cell=gru)
    for kind in ("luong", "luong_scaled", "bahdanau", "bahdanau_normalized"):
        inputs = {
            "memory": normal(2, 2, 5, 3),
            "memory_length": np.array([5, 2], np.int32),
            "inputs": x,
            "sequence_length": lengths,
        }
        yield case(
            f"attention/{kind}",
            "attention",
            "attention",
            inputs,
            kind=kind,
            layer=None if kind == "luong" else 2,
        )
    for penalty, coverage in ((0.0, 0.0), (0.7, 0.0), (0.7, 0.4)):
        inputs = {
            "memory": normal(2, 2, 5, 3),
            # Of places beyond the memory TensorFlow takes the logarithm of 0.
            "memory_length": np.array([5, 5 if coverage else 2], np.int32),
            "table": normal(3, 6, 3),
        }
        yield case(f"beam/{penalty}/{coverage}", "beam", "beam", inputs, penalty=penalty, coverage=coverage)
    yield case("greedy", "greedy", "greedy", {"table": normal(3, 6, 3)})
    yield case("sample", "sample", "sample", {"table": normal(3, 6, 3)})
    yield case("raw", "raw", "raw", {"inputs": x, "sequence_length": lengths})


def sampler_cases() -> Iterator[dict[str, Any]]:
    """Yield the cases of the candidate samplers, which draw with a seed, in three steps."""
    inputs = {"true_classes": integers(1, 10, 4, 2, dtype="int64")}
    shared = {"num_true": 2, "num_sampled": 5, "seed": 7}
    kinds: Any = {
        "uniform_sampler": ("uniform_candidate_sampler", {"range_max": 10}),
        "log_uniform_sampler": ("log_uniform_candidate_sampler", {"range_max": 10}),
        "learned_unigram_sampler": ("learned_unigram_candidate_sampler", {"range_max": 10}),
        "fixed_unigram_sampler": (
            "fixed_unigram_candidate_sampler",
            {
                "range_max": 10,
                "unigrams": [1.0, 5.0, 2.0, 1.0, 1.0, 3.0, 1.0, 1.0, 9.0, 1.0],
                "distortion": 0.5,
            },
        ),
        "all_candidates": ("all_candidate_sampler", {}),
    }
    for ours, (theirs, options) in sorted(kinds.items()):
        for unique in (False, True):
            name = f"{ours}/{unique}"
            yield case(
                name, "sampled." + ours, "random." + theirs, inputs, unique=unique, **dict(shared, **options)
            )


def confusion_cases() -> Iterator[dict[str, Any]]:
    """Which class was taken for which."""
    inputs = {"labels": integers(1, 4, 12), "predictions": integers(2, 4, 12)}
    function = "metrics.confusion_matrix"
    yield case("plain", function, "math.confusion_matrix", inputs, num_classes=4)
    yield case("wide", function, "math.confusion_matrix", inputs, num_classes=6)
    weights = np.arange(12, dtype=np.float32)
    yield case(
        "weights",
        function,
        "math.confusion_matrix",
        dict(inputs, weights=weights),
        num_classes=4,
        dtype="float32",
    )


def regularizer_cases() -> Iterator[dict[str, Any]]:
    """Penalties of a tensor, and their gradients."""
    inputs = {"tensor": normal(1, 3, 4)}
    yield case("l1", "regularizers.l1", "l1_regularizer", inputs, scale=0.3)
    yield case("l2", "regularizers.l2", "l2_regularizer", inputs, scale=0.3)
    yield case("l1_l2", "regularizers.l1_l2", "l1_l2_regularizer", inputs, scale_l1=0.3, scale_l2=0.2)


def ctc_cases() -> Iterator[dict[str, Any]]:
    """Losses and decoders over logits (T, N, C); labels as in `record_ctc`."""
    inputs = {"logits": normal(1, 5, 3, 4) * 3, "sequence_length": np.array([5, 4, 2], np.int32)}
    for collapse in (False, True):
        for merge in (False, True):
            options = {"preprocess_collapse_repeated": collapse, "merge_repeated": merge}
            yield case(f"loss/{collapse}/{merge}", "loss", "loss", inputs, **options)
    turned = dict(inputs, logits=normal(1, 3, 5, 4))
    yield case("loss/batch_major", "loss", "loss", turned, time_major=False)
    for merge in (False, True):
        yield case(f"greedy/{merge}", "greedy_decoder", "greedy", inputs, merge_repeated=merge)
    yield case("beam", "beam_search_decoder", "beam", inputs, beam_width=6, top_paths=2)


#: Labels of the CTC cases: (3, 2), the last example with one.
LABELS = (np.array([[0, 0], [0, 1], [1, 0], [1, 1], [2, 0]], np.int64), np.array([0, 1, 2, 2, 1], np.int32))


def initial(names_and_shapes: Any) -> dict[str, Any]:
    """A first value for each variable: those of scales and variances about 1, others about 0."""
    values = {}
    for number, (name, shape) in enumerate(sorted(names_and_shapes)):
        middle = 1.0 if name.endswith(("gamma", "variance")) else 0.0
        values[name] = uniform(100 + number, *shape, low=middle - 0.4, high=middle + 0.4)
    return values


FAMILIES = {
    "losses": loss_cases,
    "metrics": metric_cases,
    "embedding": embedding_cases,
    "sampled": sampled_cases,
    "layers": layer_cases,
    "rnn": rnn_cases,
    "samplers": sampler_cases,
    "regularizers": regularizer_cases,
    "confusion": confusion_cases,
    "ctc": ctc_cases,
}
