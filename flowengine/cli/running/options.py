"""The options of `flowengine run`, in the sections of its help."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from flowengine.cli.graphs import tag_option
from flowengine.cli.imports import import_option
from flowengine.cli.placement import placement_options
from flowengine.cli.running.tracing import keep_option
from flowengine.cli.sandbox.running import boxable
from flowengine.cli.shell.names import (
    complete_checkpoint,
    complete_feed,
    complete_fetch,
    complete_folder,
    complete_function,
    complete_node,
    complete_signature,
)
from flowengine.cli.tables.naming import BATCH_SIZE

Command = TypeVar("Command", bound=Callable[..., Any])

HELP: Final = """\
Run steps of GRAPH and print what they fetch.

GRAPH is a GraphDef or MetaGraphDef file, binary or text, a SavedModel directory, or - for standard input.
Without --fetch and --target, the command prints the placeholders and likely outputs of the graph, and
suggests the next command.

A SavedModel restores its variables and runs its default signature, or the one of --signature: NAME is then an
input of the signature, and the command prints all its outputs. The variables of a .meta or graph.pb file come
from the checkpoint beside it, or from the one of --restore, unless you give --init or --target. With --init
and --restore, the initializers run first: a variable that the checkpoint lacks keeps its initial value.

\b
SOURCE, after --feed NAME=, is one of:
  a.npy, a.npz:key      an array; pickled objects are an error, except for texts
  a.json                a number, text, truth value, {"b64": ...} for bytes, or nested lists of them
  a.jsonl               one such value on each line, as a batch
  a.tfrecord            the records of a file, such as serialized Examples, as a batch
  a.png, a.jpg, ...     an image: uint8, height x width x channels, cast to the tensor's type, with a batch
                        axis for a tensor of rank 4; resized if the tensor has a fixed size
  '*.png'               the images of all these files, as a batch
  a.wav                 the samples of 16-bit PCM: samples x channels, or samples
  3, [[1, 2]], text     a literal; quotes are allowed: "text"
  zeros, ones, random   synthetic values, in a batch of one, to try a model; the text for a string tensor
  @FILE                 the bytes of a file, for a string tensor, or for one of rank 1 as a batch of one;
                        @@text is a text that begins with @
  -                     standard input, in any of these forms
  a.csv, .tsv, .parquet a table, a row for each: its columns of the input's name (x, or x.0, x.1, ...), or all
                        of them in order, or as the features of tf.Examples
--feed a.npz feeds every array of the file under its key, --feed a.json every value of a JSON object, and
--feed a.jsonl a batch of JSON objects, one on each line. --feed a.csv feeds every input that has columns of
its name. A table runs a step for each --batch-size rows, and prints or keeps (-o out.csv) a row for each of
its rows.

With --checkpoint, the command trains. It initializes the variables with --init, or else as the MetaGraphDef
says, and saves checkpoints in the directory as TensorFlow's Saver does. With --resume, it continues from the
latest checkpoint there, also from one of TensorFlow. Without --target, a step runs the train_op of the
MetaGraphDef. Its queue runners run beside the steps. --steps N means N more steps, or, with --recover, N in
all.

\b
Exit codes: 0 done, 1 a step failed, 2 wrong usage, 3 the graph cannot be read, 4 an op or kernel is missing,
5 a feed is missing or does not fit, 6 a step took longer than --timeout, 130 interrupted.
"""


#: section of the help -> names of the parameters of its options.
SECTIONS: Final = {
    "Common options": (
        *("feeds", "fetches", "signature", "output", "labels_file", "top", "stats", "as_json", "restore"),
    ),
    "Images": ("drawing", "image_size", "image_scale", "image_offset"),
    "Tables": ("batch_size", "keep_inputs", "keep_going"),
    "Looking": ("trace", "profile", "guard", "record", "record_values", "logdir"),
    "Steps": ("targets", "inits", "finals", "steps", "every", "repeat", "timeout", "force"),
    "Training runs": ("meta", "checkpoint", "save_every", "resume", "recover"),
    "Exported models": ("function", "tags"),
    "Placement": ("at", "device_counts", "places", "soft", "log_device_placement"),
    "Sandbox": ("sandbox", "sandbox_memory", "sandbox_seconds", "sandbox_writes"),
}


def _size(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, int] | None:
    if value is None:
        return None
    height, _x, width = value.lower().partition("x")
    if not (height.isdigit() and width.isdigit() and int(height) and int(width)):
        raise click.BadParameter(f"{value!r} is not HEIGHTxWIDTH, such as 224x224")
    return int(height), int(width)


def _fraction(_: click.Context, __: click.Parameter, value: str | None) -> float | None:
    if value is None:
        return None
    top, slash, bottom = value.partition("/")
    try:
        return float(top) / float(bottom) if slash else float(top)
    except (ValueError, ZeroDivisionError):
        raise click.BadParameter(f"{value!r} is not a number or a fraction, such as 1/255") from None


def image_options(command: Command) -> Command:
    """Give a command `--image-size`, `--image-scale` and `--image-offset`."""
    options = (
        click.option("--image-size", callback=_size, metavar="HxW", help="Resize images."),
        click.option(
            "--image-scale",
            callback=_fraction,
            metavar="A",
            help="Multiply the values of images by A, such as 1/255.",
        ),
        click.option(
            "--image-offset",
            callback=_fraction,
            metavar="B",
            help="Add B to the values of images, after scaling.",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


_OPTIONS: Final = (
    boxable,
    click.argument("graph", type=click.Path(), metavar="[GRAPH]", required=False),
    click.option(
        "-x",
        "--feed",
        "feeds",
        multiple=True,
        metavar="NAME=SOURCE",
        help="Feed a tensor; y means y:0.",
        shell_complete=complete_feed,
    ),
    click.option(
        "-y",
        "--fetch",
        "fetches",
        multiple=True,
        metavar="NAME",
        help="Fetch a tensor in every step.",
        shell_complete=complete_fetch,
    ),
    click.option(
        "-t",
        "--target",
        "targets",
        multiple=True,
        metavar="NODE",
        help="Run a node in every step.",
        shell_complete=complete_node,
    ),
    click.option(
        "--init",
        "inits",
        multiple=True,
        metavar="NODE",
        help="Run a node once, before a restore and the steps.",
        shell_complete=complete_node,
    ),
    click.option(
        "--final",
        "finals",
        multiple=True,
        metavar="NAME",
        help="Fetch a tensor once, after the steps.",
        shell_complete=complete_node,
    ),
    click.option("-n", "--steps", type=click.IntRange(min=1), default=1, metavar="N", help="Run N steps."),
    click.option(
        "--every", type=click.IntRange(min=1), metavar="N", help="Print the fetched scalars every N steps."
    ),
    click.option(
        "--repeat",
        type=click.IntRange(min=1),
        metavar="N",
        help="Afterwards, run N more steps and print how long they took.",
    ),
    click.option(
        "--trace",
        type=click.Path(),
        expose_value=False,
        callback=keep_option,
        metavar="FILE",
        help="Write the timeline of the last step, as JSON for Perfetto or `flowengine trace`.",
    ),
    click.option(
        "--profile",
        type=click.Choice(["op", "node", "scope", "line", "memory"]),
        is_flag=False,
        flag_value="op",
        expose_value=False,
        callback=keep_option,
        metavar="[BY]",
        help="Print the time of the last step by op, node, scope or line, or what holds memory at its peak.",
    ),
    click.option(
        "--guard",
        is_flag=True,
        expose_value=False,
        callback=keep_option,
        help="Stop at the first node that makes NaN or an infinity of finite inputs, and name it.",
    ),
    click.option(
        "--record",
        type=click.Path(),
        expose_value=False,
        callback=keep_option,
        metavar="FILE",
        help="Record the value of every node in the last step, as figures and samples, for "
        "`flowengine compare`.",
    ),
    click.option(
        "--record-values",
        multiple=True,
        expose_value=False,
        callback=keep_option,
        metavar="PATTERN",
        help="Record the whole values of tensors whose names match, such as 'tower/*', or '*'.",
    ),
    click.option(
        "-o",
        "--output",
        type=click.Path(),
        metavar="FILE",
        help="Write the results, or the final values with --final, to a .npz, .npy or .json file; images to "
        "a .png file or a folder; the rows of a table to a .csv, .tsv, .parquet or .npz file, or - for "
        "standard output.",
    ),
    click.option(
        "--batch-size",
        type=click.IntRange(min=1),
        metavar="N",
        help=f"Rows of a table in a step ({BATCH_SIZE}).",
    ),
    click.option("--keep-inputs", is_flag=True, help="Write a table's columns before the values."),
    click.option(
        "--keep-going", is_flag=True, help="Leave out rows of a table that fail, instead of ending there."
    ),
    click.option("--force", is_flag=True, help="Overwrite the file of --output if it exists."),
    click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        metavar="S",
        help="Time limit for a step, in seconds.",
    ),
    click.option(
        "--logdir",
        type=click.Path(),
        metavar="FOLDER",
        help="Write the graph, what steps fetch, and with --trace or --profile the last step's times, for "
        "TensorBoard.",
        shell_complete=complete_folder,
    ),
    click.option(
        "--signature",
        metavar="NAME",
        help="Feed and fetch by the names of this signature of an exported graph.",
        shell_complete=complete_signature,
    ),
    click.option(
        "--function",
        metavar="NAME",
        help="Call a function that TensorFlow 2 saved.",
        shell_complete=complete_function,
    ),
    tag_option,
    click.option(
        "--restore",
        metavar="CHECKPOINT",
        help="Restore the variables from a checkpoint, which is only read.",
        shell_complete=complete_checkpoint,
    ),
    click.option(
        "--meta", type=click.Path(), metavar="FILE", help="Read the graph from the MetaGraphDef in this file."
    ),
    click.option(
        "--checkpoint",
        metavar="DIR",
        help="Train: start, save and resume in this directory.",
        shell_complete=complete_folder,
    ),
    click.option(
        "--save-every",
        type=click.IntRange(min=1),
        metavar="N",
        help="Save every N steps, not only at the end.",
    ),
    click.option("--resume", is_flag=True, help="Resume from the latest checkpoint, if there is one."),
    click.option(
        "--recover",
        is_flag=True,
        help="Also resume after tasks of a cluster were lost; --steps N then means N steps in all.",
    ),
    click.option(
        "--at",
        metavar="PLACE",
        envvar="FLOWENGINE_TARGET",
        help="Run at a task of a cluster: HOST:PORT, /job:worker/task:0 of the cluster in this folder or in "
        "FLOWENGINE_CLUSTER, or a target flow://... The default is the value of FLOWENGINE_TARGET.",
    ),
    click.option(
        "--labels",
        "labels_file",
        type=click.Path(),
        metavar="FILE",
        help="Print the best classes of the fetched scores, with the names in FILE, one on each line.",
    ),
    click.option(
        "--top",
        type=click.IntRange(min=1),
        metavar="K",
        help="Print the K best classes of the fetched scores (with --labels: 5).",
    ),
    click.option(
        "--draw",
        "drawing",
        type=click.Path(),
        metavar="FOLDER",
        help="Draw the boxes of detected objects on the pictures that are fed, into this folder.",
        shell_complete=complete_folder,
    ),
    click.option("--stats", is_flag=True, help="Print figures and a histogram instead of the values."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    image_options,
    import_option,
    placement_options,
    click.option("--log-device-placement", is_flag=True, help="Log the device of each node."),
    click.option("--debug", is_flag=True, help="Show a traceback with an error."),
)


def run_options(command: Command) -> Command:
    """Give a command GRAPH and the options of `flowengine run`."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


__all__ = ["HELP", "SECTIONS", "image_options", "run_options"]
