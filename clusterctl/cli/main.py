"""``clusterctl``: the top-level command and its options, and the only place that turns errors into exit codes."""

from __future__ import annotations

import atexit
import errno
import gc
import io
import os
import pwd
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from clusterctl import __version__, log
from clusterctl.cli import console, verbs
from clusterctl.cli.completion import REQUEST
from clusterctl.cli.exit_codes import INTERRUPTED, READER_GONE
from clusterctl.cli.help.application import Application
from clusterctl.cli.terminal import color, interrupt
from clusterctl.cli.terminal.streams import abandon
from clusterctl.errors import ClusterctlError, ConfigError, ControllerFileError

# Errors of this machine's disk (full, over quota, read-only, broken), in any part of a run.
_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG)

_REFUSED_CHOICE = re.compile(r"'([^']*)' is not one of (.*)")

# Typer includes its own copy of click since 0.2x and used the click package before: Typer gives access to both.
ClickException: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")


def _show_version(wanted: bool) -> None:
    if wanted:
        console.data(f"clusterctl {__version__}")
        raise typer.Exit


def options(
    verbose: Annotated[
        int,
        typer.Option(
            "--verbose", "-v", count=True, help="Print more on stderr: logins; twice: also commands."
        ),
    ] = 0,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print no progress, notices and warnings on stderr.")
    ] = False,
    when: Annotated[
        color.When,
        typer.Option(
            "--color",
            help="Colour the output: on a terminal, always, or never. NO_COLOR and FORCE_COLOR count for auto.",
        ),
    ] = color.When.auto,
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Turn bare GPU nodes that answer SSH into a proven training cluster."""
    log.configure(-1 if quiet else min(verbose, 2), console.error)
    color.choose(when)
    _warn_about_unknown_variables()


def _warn_about_unknown_variables() -> None:
    """Warn about variables that begin with CLUSTERCTL_ and have no meaning: most likely typing errors."""
    names = [name for name in os.environ if name.startswith("CLUSTERCTL_")]
    if names:
        from clusterctl import config

        for name, meant in config.unknown_variables(names).items():
            console.talk(
                f"warning: {name} is ignored: {f'did you mean {meant}?' if meant else 'unknown variable'}"
            )


def application(verb: str | None = None) -> typer.Typer:
    """Return the whole application, or only the part that one command needs; with an empty text no command."""
    app = Application(
        name="clusterctl",
        help="Turn bare GPU nodes that answer SSH into a proven training cluster.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(options)
    verbs.add_to(app, verb)
    return app


def _document(message: str, exit_code: int, hint: str | None = None) -> dict[str, Any]:
    from clusterctl.documents.error import Error, ErrorBody

    return Error(error=ErrorBody(message=message, hint=hint, exit_code=exit_code)).document()


def _keep_in_run(message: str, exit_code: int, hint: str | None) -> None:
    """Write an error into the run folder of the run that it ended, for ``runs``."""
    rundir = sys.modules.get("clusterctl.rundir")  # if it was never imported, no run had begun
    if rundir is not None:
        rundir.keep_error(_document(message, exit_code, hint))


def _hoisted(arguments: Sequence[str]) -> list[str]:
    """Move ``-v``, ``-q`` and ``--color`` before the command, where Typer expects them.

    Those among the arguments of a program stay, because they may be the program's own.
    """
    talk = verbs.talk_in(arguments)
    own = [word for at, word in enumerate(arguments) if at in talk]
    return [*own, *(word for at, word in enumerate(arguments) if at not in talk)]


def _start_lean() -> None:
    """Speed up the imports of a command: an eighth of the time of a short one.

    Imported objects live until the end, so collecting cyclic garbage among them finds nothing; at exit it would take a
    tenth of a second for the facts of 256 nodes. pydantic would read the entry points of all installed packages to
    find plugins, which are not used.
    """
    gc.set_threshold(50_000, 20, 20)
    atexit.register(gc.freeze)
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")


def _be_somebody() -> None:
    """Set a login name, and ``/`` as home (login(1)), for a user without an account, as in some containers.

    Paths with ``~``, ssh_config's ``%u`` and mpirun require both.
    """
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        os.environ.setdefault("HOME", "/")
        os.environ.setdefault("LOGNAME", os.environ.get("USER") or str(os.getuid()))


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command line and return its exit code (docs/architecture.md, "The contract")."""
    _start_lean()
    _be_somebody()
    console.open_closed_streams()
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == [REQUEST]:
            code = _complete(arguments[1:])
        else:
            arguments = _hoisted(arguments)
            interrupt.begin(arguments)
            code = _run(arguments)
        console.flush()
    except console.ReaderGoneError:
        # The reader of stdout (head, less) closed it; by the shell's convention, exit without a message.
        abandon(sys.stdout, sys.stderr)
        return READER_GONE
    except ConfigError as error:
        console.error(f"error: {error.message}")
        return error.exit_code
    return code


def _complete(request: Sequence[str]) -> int:
    from clusterctl.cli.completion import answer

    console.data(answer.text(request, application))
    return 0


def _hint(error: Any) -> str | None:
    """Return how the command expects an argument that was given in the form of another one; None otherwise."""
    context: Any = getattr(error, "ctx", None)
    if context is None:
        return None
    unknown = getattr(error, "option_name", None)
    if (refused := _REFUSED_CHOICE.search(error.message)) is not None:
        from clusterctl.text.closest import closest

        # Typer hands on the choices in its message only.
        near = closest(refused[1], re.findall(r"'([^']*)'", refused[2]), most=1)
        return f"did you mean {near[0]}?" if near else None
    if unknown is None and error.message.startswith("No such command") and "Did you" not in error.message:
        if error.message == "No such command 'results'." and context.parent is None:
            return "its commands are in 'runs': clusterctl runs -h"
        return f"choose from: {', '.join(context.command.list_commands(context))}"
    if unknown is None and error.message.startswith("Got unexpected extra argument"):
        return _inventory_apart(context)
    if unknown is not None and context.parent is None:
        return f"options of a command follow it: clusterctl COMMAND {unknown}"
    if unknown is not None and verbs.takes_a_program(context.command_path.partition(" ")[2]):
        own = f"; clusterctl's own {unknown} goes before the command" if verbs.is_talk(unknown) else ""
        return f"a program and its options follow '--'{own}"
    return None if unknown is None else _elsewhere(error, unknown)


def _inventory_apart(context: Any) -> str | None:
    """Return how to give an inventory beside the command's own argument; None if it has none, or takes none."""
    own = [one for one in context.command.params if one.param_type_name == "argument"]
    if not own or own[0].name == "inventory" or not any("-i" in one.opts for one in context.command.params):
        return None
    return f"give the inventory with -i: {context.command_path} -i INVENTORY {own[0].metavar or own[0].name.upper()}"


def _elsewhere(error: Any, unknown: str) -> str | None:
    """Return the commands that have the unknown option; without any, suggest one that resembles it."""
    from clusterctl.cli.description import described
    from clusterctl.cli.help import unknown_option

    known = [spelling for one in error.ctx.command.params for spelling in (*one.opts, *one.secondary_opts)]
    owners = unknown_option.owners(unknown, described(application()))
    error.possibilities = [] if owners else unknown_option.alike(unknown, known)
    return None if error.possibilities or not owners else f"{unknown} is an option of: {', '.join(owners)}"


def _reword(error: Any) -> None:
    """Replace pydantic's words in the message of a rejected value: Typer checks values with pydantic."""
    if type(error.__cause__).__name__ == "ValidationError":
        from clusterctl.text import model_errors

        error.message = model_errors.first(error.__cause__)


def _run(arguments: list[str]) -> int:
    as_json = "--json" in arguments[: verbs.end_of_own(arguments)]
    try:
        app = application("" if verbs.asks_for_overview(arguments) else verbs.named_in(arguments))
        with console.written_by_others():
            outcome = app(args=arguments, prog_name="clusterctl", standalone_mode=False)
    except ClusterctlError as error:
        _keep_in_run(error.message, error.exit_code, error.hint)
        if as_json:
            console.emit_json(_document(error.message, error.exit_code, error.hint))
        console.error(f"error: {error.message}")
        if error.hint:
            console.error(f"hint: {error.hint}")
        return error.exit_code
    except ClickException as error:
        _reword(error)
        hint = _hint(error)
        if as_json:
            console.emit_json(_document(error.format_message(), int(error.exit_code), hint))
        said = io.StringIO()
        error.show(file=said)
        # click begins its own message with a capital.
        console.error(re.sub(r"^Error: ", "error: ", said.getvalue().rstrip("\n"), flags=re.MULTILINE))
        if hint:
            console.error(f"hint: {hint}")
        return int(error.exit_code)
    except OSError as error:
        if error.errno not in _DISK:
            raise
        place = f"cannot write {error.filename}" if error.filename else "cannot write a file"
        from clusterctl.rundir import on_this_machine

        message, hint = (
            f"{place}: {on_this_machine(error)}",
            "free disk space on this machine; the nodes are not the cause",
        )
        if as_json:
            console.emit_json(_document(message, ControllerFileError.exit_code, hint))
        console.error(f"error: {message}")
        console.error(f"hint: {hint}")
        return ControllerFileError.exit_code
    except (typer.Abort, KeyboardInterrupt):
        outcome = INTERRUPTED
    if outcome == INTERRUPTED:  # Typer returns it for a KeyboardInterrupt
        told = interrupt.told()
        if as_json:
            message, *rest = told or ("interrupted",)
            console.emit_json(_document(message, INTERRUPTED, "\n".join(rest) or None))
        if not told:
            console.error("interrupted")
    return int(outcome) if isinstance(outcome, int) else 0


if __name__ == "__main__":
    sys.exit(main())
