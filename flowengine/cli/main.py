"""The parser of `flowengine`. It turns any failure into one line and an exit code.

It imports the module of a verb when the verb is used, so that each verb starts fast.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import click

from flowengine.cli import failure
from flowengine.cli.interrupt import Interrupt
from flowengine.cli.shell.commands import SuggestingGroup

#: verb -> (module, short help). One verb a file.
VERBS: Final = {
    "run": ("flowengine.cli.run", "Run steps of a graph and print what they fetch."),
    "inspect": ("flowengine.cli.inspect", "Show the contents of a graph."),
    "ops": ("flowengine.cli.ops", "List the ops that FlowEngine can run."),
    "bench": ("flowengine.cli.bench.verb", "Measure latency and throughput of a graph."),
    "serve": ("flowengine.cli.serving.verb", "Serve models behind HTTP."),
    "trace": ("flowengine.cli.looking.trace", "Summarize the timeline of a step."),
    "compare": ("flowengine.cli.comparing.verb", "Find the first tensor in which two runs differ."),
    "debug": ("flowengine.cli.debugging.verb", "Run a step node by node and look at values."),
    "checkpoint": ("flowengine.cli.checkpoint.verbs", "Read checkpoints: ls, show, diff, export."),
    "devices": ("flowengine.cli.devices", "List the devices of this machine."),
    "worker": ("flowengine.cli.tasks.worker", "Run one task of a cluster."),
    "cluster": ("flowengine.cli.tasks.cluster", "Create, watch, drain or start a cluster."),
    "doctor": ("flowengine.cli.doctor", "Check the installation."),
    "plan": ("flowengine.cli.plan", "Show the nodes that a step would run."),
    "freeze": ("flowengine.cli.models.freezing", "Write a graph with its variables as constants."),
    "gradients": ("flowengine.cli.gradients", "Add the derivatives of tensors to a graph."),
    "sandbox": ("flowengine.cli.sandbox.check", "Check the sandbox mechanisms of this machine."),
}

EXAMPLES: Final = """\
FlowEngine runs TensorFlow graphs without TensorFlow. Four examples:

  flowengine inspect graph.pb                             list its nodes, inputs and outputs
  flowengine run graph.pb --feed x=3.5 --fetch y          feed a value and print a result
  flowengine run graph.pb --feed image=cat.jpg --fetch scores --output scores.npz
  flowengine run model_directory --feed image=cat.jpg     call a SavedModel by its signature

flowengine --help lists the commands; flowengine run --help explains feeds, steps and exit codes.
"""


#: The variable that a shell sets when it asks for completions; see docs/cli.md.
_COMPLETION: Final = "_FLOWENGINE_COMPLETE"


class _Verbs(SuggestingGroup):
    """A group that imports the module of a command on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        command = importlib.import_module(VERBS[cmd_name][0]).command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in VERBS.items()])


def _show_version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted:
        from flowengine.cli.doctor import version_line

        click.echo(version_line())
        ctx.exit()


@click.group(
    cls=_Verbs,
    name="flowengine",
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "-V",
    "--version",
    is_flag=True,
    expose_value=False,
    is_eager=True,
    callback=_show_version,
    help="Show the versions of FlowEngine, Python, NumPy and oneDNN.",
)
@click.option("--debug", is_flag=True, help="Show a traceback with an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """Run TensorFlow graphs without TensorFlow."""
    if ctx.invoked_subcommand is None:
        click.echo(EXAMPLES, nl=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code; `argv` is `sys.argv[1:]` unless given."""
    if argv is not None:
        return _main(list(argv), ends_process=False)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a name may have letters that the terminal has not
    if _COMPLETION in os.environ:
        from click.shell_completion import shell_complete

        import flowengine.cli.shell.bash

        flowengine.cli.shell.bash.register()
        return shell_complete(cli, {}, "flowengine", _COMPLETION, os.environ[_COMPLETION])
    code = _main(sys.argv[1:], ends_process=True)
    if threading.active_count() > 1:
        # A kernel that a cancelled step has left behind may still be inside a library whose own clean-up
        # at the interpreter's end waits for it, for ever.
        _flush()
        os._exit(code)
    return code


def _main(arguments: list[str], *, ends_process: bool) -> int:
    debug = "--debug" in arguments
    interrupt = Interrupt(ends_process=ends_process)
    with contextlib.ExitStack() as stack:
        stack.enter_context(interrupt)
        if debug:
            from flowengine.core.tracebacks import shown_whole

            stack.enter_context(shown_whole())
        try:
            # Not cli.main: it has ways of its own with closed pipes and Ctrl-C.
            with cli.make_context(
                "flowengine", arguments, obj={"interrupt": interrupt, "arguments": tuple(arguments)}
            ) as context:
                cli.invoke(context)
            sys.stdout.flush()
            return failure.OK
        except BrokenPipeError:
            return _give_up_stdout()
        except BaseException as error:
            code = _report(error, debug=debug, interrupted=interrupt.seen)
            if code is None:
                raise
            return code


def _report(error: BaseException, *, debug: bool, interrupted: bool) -> int | None:
    """Print the error's line; its exit code, or None for what is not ours to handle."""
    if interrupted or isinstance(error, KeyboardInterrupt | click.Abort):
        text, code = "interrupted", failure.INTERRUPTED
    elif isinstance(error, click.exceptions.Exit):
        return error.exit_code
    elif isinstance(error, click.ClickException):
        text, code = _usage(error), failure.USAGE
    elif isinstance(error, Exception):
        text, code = failure.describe(error)
    else:
        return None
    if debug:
        import traceback

        traceback.print_exception(error)
    with contextlib.suppress(OSError):  # nobody may be left to read it
        click.echo(f"{_coloured('error:')} {text}", err=True)
    return code


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()


def _usage(error: click.ClickException) -> str:
    context: Any = getattr(error, "ctx", None)
    help_for = context.command_path if context is not None else "flowengine"
    return failure.printable(f"{error.format_message()} (see {help_for} --help)")


def _coloured(word: str) -> str:
    plain = os.environ.get("NO_COLOR") or not sys.stderr.isatty()
    return word if plain else click.style(word, fg="red", bold=True)


def _give_up_stdout() -> int:
    """The reader of our output has gone; say no more, not even when the interpreter flushes at its end."""
    # In a test or a host program standard output may be no file.
    with contextlib.suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return failure.CLOSED_PIPE
