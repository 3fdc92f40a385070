"""The models of `serving_models.py` on both sides: saved by TensorFlow 2, then loaded and called here.

    python whole_models.py FOLDER [NAME ...]              TensorFlow 2's side
    python -m tests.saved_model.whole_models FOLDER       this side: compares, and prints what differs

Each is compared twice: loaded by `fe.saved_model.load`, all its calls in order, and by `flowengine run DIR`,
its first call. `test_keras.py` runs both sides where FLOWENGINE_TENSORFLOW_PYTHON names a TensorFlow 2.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np

DEFAULT = "serving_default"
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Differences that count: of float32 through a few layers.
RELATIVE, ABSOLUTE = 1e-3, 1e-5
#: A model that computes with fewer bits differs by the order of its sums.
COARSE = {"half_precision": 2e-2}


def save_all(folder: str, only: list[str]) -> None:
    """TensorFlow's side: a directory for each model, with its calls and their values in `calls.npz`."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    sys.path.insert(0, ROOT)
    from tests.saved_model.serving_models import MODELS

    keras = tf.keras
    for name, build in MODELS.items():
        if only and name not in only:
            continue
        keras.utils.set_random_seed(7)
        made, signatures, calls = build(tf, keras)
        noise = np.random.default_rng(3)
        for weight in getattr(made, "trainable_weights", ()):
            if weight.dtype == "float32":
                weight.assign(weight + noise.normal(0, 0.1, weight.shape).astype("float32"))
        place = os.path.join(folder, name)
        if signatures is None:
            made.export(place, verbose=False)
        else:
            tf.saved_model.save(made, place, signatures=signatures)
        record(tf, place, calls)


def record(tf: Any, place: str, calls: list[dict[str, Any]]) -> None:
    """Call what was saved, as whoever loads it does."""
    loaded = tf.saved_model.load(place)
    kept: dict[str, Any] = {}
    for number, call in enumerate(calls):
        signature = call.pop("signature", DEFAULT)
        outputs = loaded.signatures[signature](**{key: tf.constant(value) for key, value in call.items()})
        for key, value in call.items():
            kept[f"{number} {signature} in {key}"] = plain(value)
        for key, value in outputs.items():
            kept[f"{number} {signature} out {key}"] = plain(value.numpy())
    np.savez(os.path.join(place, "calls.npz"), **kept)


def plain(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype != object:
        return array
    return np.array([each if isinstance(each, bytes) else each.encode() for each in array.ravel()]).reshape(
        array.shape
    )


def calls_of(place: str) -> list[tuple[str, dict[str, Any], dict[str, Any]]]:
    """(signature, inputs, outputs) of each call, in order."""
    calls: dict[int, tuple[str, dict[str, Any], dict[str, Any]]] = {}
    with np.load(os.path.join(place, "calls.npz")) as kept:
        for key, value in kept.items():
            number, signature, side, name = key.split(" ", 3)
            _, inputs, outputs = calls.setdefault(int(number), (signature, {}, {}))
            (inputs if side == "in" else outputs)[name] = value
    return [calls[number] for number in sorted(calls)]


def differences(folder: str) -> Iterator[tuple[str, str]]:
    """This side: (model and way, what is wrong with it, or nothing)."""
    import trio

    for name in sorted(os.listdir(folder)):
        place = os.path.join(folder, name)
        if os.path.isdir(place):
            yield name, trio.run(_loaded, place, COARSE.get(name, RELATIVE))
            yield f"{name} on the shell", _on_the_shell(place, COARSE.get(name, RELATIVE))


async def _loaded(place: str, relative: float) -> str:
    import flowengine as fe

    try:
        async with await fe.saved_model.load(place) as model:
            for signature, inputs, outputs in calls_of(place):
                fed = {key: as_fed(value) for key, value in inputs.items()}
                fault = compared(await model.signatures[signature].call(fed), outputs, relative)
                if fault:
                    return fault
    except fe.errors.OpError as error:
        return f"{type(error).__name__}: {error}"
    return ""


def _on_the_shell(place: str, relative: float) -> str:
    from flowengine.cli.main import main

    signature, inputs, outputs = calls_of(place)[0]
    command = ["run", place, "--json"]
    command += [] if signature == DEFAULT else ["--signature", signature]
    for number, (key, value) in enumerate(inputs.items()):
        file = os.path.join(place, f"{number}.npy")
        np.save(file, value)
        command += ["--feed", f"{key}={file}"]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(command)
    if code:
        return f"exit code {code}: {err.getvalue()}"
    values = json.loads(out.getvalue())["values"]
    return compared({key: np.array(each["value"]) for key, each in values.items()}, outputs, relative)


def as_fed(value: Any) -> Any:
    return value.astype(object) if value.dtype.kind == "S" else value


def compared(got: dict[str, Any], wanted: dict[str, Any], relative: float) -> str:
    """Return the first difference as a sentence, or nothing."""
    if got.keys() != wanted.keys():
        return f"outputs {sorted(got)} instead of {sorted(wanted)}"
    for key, other in wanted.items():
        one = np.asarray(got[key])
        if one.shape != other.shape:
            return f"{key}: shape {one.shape} instead of {other.shape}"
        if other.dtype.kind == "S":
            texts = [each if isinstance(each, bytes) else str(each).encode() for each in one.ravel().tolist()]
            if texts != other.ravel().tolist():
                return f"{key}: {texts} instead of {other.ravel().tolist()}"
            continue
        bound = max(ABSOLUTE, relative * np.abs(other).max(initial=0))
        if not np.allclose(one, other, rtol=relative, atol=bound):
            return f"{key}: differs by {np.abs(one - other).max():.3g} of {np.abs(other).max():.3g}"
    return ""


def main(folder: str, *only: str) -> None:
    if __package__:
        for name, fault in differences(folder):
            print(f"{name}: {fault or 'equal'}")
        return
    save_all(folder, list(only))


if __name__ == "__main__":
    main(*sys.argv[1:])
