"""``inventory init``: write an inventory of nodes that a person names, with what a probe finds on them."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from clusterctl import __version__
from clusterctl.cli import console
from clusterctl.cli import options as cli
from clusterctl.errors import UsageError
from clusterctl.inventory.user_paths import at_home, is_file
from clusterctl.text.wording import counted

if TYPE_CHECKING:
    from clusterctl.facts.model.node import NodeFacts
    from clusterctl.inventory.imports.found import FoundNode, ImportedInventory, Setting
    from clusterctl.inventory.model import Inventory
    from clusterctl.transport.base import HostMap

_SUBJECTS = frozenset({"system", "pci", "gpu", "rdma", "network"})


def init(
    targets: Annotated[
        str | None,
        typer.Argument(
            metavar="TARGETS",
            help="The nodes: root@gpu[01-16], several separated by commas; asked for on a terminal.",
        ),
    ] = None,
    *,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="Output file; '-': stdout.")
    ] = Path("inventory.yaml"),
    user: Annotated[
        str | None,
        typer.Option(
            "--user",
            metavar="USER",
            help="Login user of targets that name none.",
            show_default="as ssh_config sets it",
        ),
    ] = None,
    identity_file: Annotated[
        str | None,
        typer.Option(
            "--identity-file", metavar="FILE", help="Private key on this machine.", show_default="as ssh does"
        ),
    ] = None,
    proxy_jump: Annotated[
        str | None,
        typer.Option(
            "--proxy-jump",
            metavar="HOST",
            help="Jump host: [user@]host[:port].",
            show_default="as ssh_config sets it",
        ),
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="NAME=NODESET", help="A group of nodes.")
    ] = None,
    probe: Annotated[
        bool, typer.Option("--probe/--no-probe", help="Log in to the nodes and note what they have.")
    ] = True,
    force: Annotated[bool, typer.Option("--force", help="Overwrite the output file.")] = False,
    fanout: cli.FanoutOption = None,
    accept_new_host_keys: cli.AcceptHostKeysOption = False,
    as_json: cli.JsonOption = False,
) -> None:
    """Write a commented inventory of the nodes that you name; a probe tries the logins first.

    The file is written whole or not at all.

    Exit code 0: written; 1: written, but a node did not answer; 5: no node answered, and nothing was written.
    """
    from clusterctl.cli.inventory import host_names, writing
    from clusterctl.documents.inventory import InventoryInit

    printed = str(output) == "-"
    if not printed:
        writing.refuse_existing(output, force)
    with _nothing_written():
        typed = _Answers(targets, user, identity_file, proxy_jump)
        given = typed.complete()
        again = given.words(typed)
        folder = Path() if printed else output.parent
        found = _found(given, tuple(group or ()), folder)
        inventory, text = _text(found, folder)
        facts = _probed(inventory, given, again, fanout, accept_new_host_keys) if probe else None
    unreachable: tuple[str, ...] = ()
    if facts is not None:
        if len(facts.failures) == len(inventory.nodes):
            console.error("hint: nothing was written; fix the login, or write the file with --no-probe")
            if given != typed:
                console.error(f"To repeat it with the same answers: {shlex.join(('clusterctl', *again))}")
            raise typer.Exit(5)
        found, facts = host_names.applied(found, facts)
        unreachable = tuple(facts.failures)
        inventory, text = _text(found, folder, facts)
    if not printed:
        writing.write(output, text, force)
    if as_json:
        console.emit_json(
            InventoryInit(
                output=None if printed else str(output),
                text=text,
                nodes=tuple(node.name for node in inventory.nodes),
                unreachable=unreachable,
            ).document()
        )
    elif printed:
        console.data(text)
    if not printed:
        of_file = "" if output == Path("inventory.yaml") else f" {output}"
        count = len(inventory.nodes)
        console.talk(f"{output}: {counted(count, 'node')}")
        console.talk(f"Next: clusterctl check{of_file}")
    raise typer.Exit(1 if unreachable else 0)


@contextmanager
def _nothing_written() -> Iterator[None]:
    """Tell a person who interrupts the command that no file was written."""
    from clusterctl.cli.terminal import interrupt

    try:
        yield
    except KeyboardInterrupt:
        interrupt.tell("No file was written.")
        raise


@dataclass(frozen=True, slots=True)
class _Answers:
    """What a person gave, by options or by answers to questions."""

    targets: str | None
    user: str | None
    identity_file: str | None
    proxy_jump: str | None

    def complete(self) -> _Answers:
        """Ask for the nodes, and for each setting that no option gave, if no nodes were given."""
        if self.targets is not None:
            return self
        console.require_terminal(
            "no nodes were given", hint="name them: clusterctl inventory init root@gpu[01-16]"
        )
        from clusterctl.inventory.targets import inventory_of

        targets = _asked("Nodes, such as root@gpu[01-16]; several separated by commas", inventory_of)
        all_have_users = all(node.user is not None for node in inventory_of(targets).nodes)
        user = self.user
        if user is None and not all_have_users:
            user = _asked("Login user (empty: as ssh_config sets it)", _valid("user"), optional=True)
        key = self.identity_file or _asked(
            "Private key on this machine (empty: as ssh does)", _valid("identity_file"), optional=True
        )
        jump = self.proxy_jump or _asked(
            "Jump host, [user@]host[:port] (empty: none)", _valid("proxy_jump"), optional=True
        )
        return _Answers(targets, user or None, key or None, jump or None)

    def words(self, typed: _Answers) -> tuple[str, ...]:
        """Return the words of the command line that was typed, with the answers that it did not hold."""
        from clusterctl.cli.terminal import interrupt

        own = (
            (None, "targets"),
            ("--user", "user"),
            ("--identity-file", "identity_file"),
            ("--proxy-jump", "proxy_jump"),
        )
        added: list[str] = []
        for flag, name in own:
            answer: str | None = getattr(self, name)
            if answer is not None and answer != getattr(typed, name):
                added += [answer] if flag is None else [flag, answer]
        return (*interrupt.arguments(), *added)


def _asked(question: str, check: Callable[[str], object], *, optional: bool = False) -> str:
    """Ask until the answer is valid."""
    while True:
        answer = console.ask(question)
        if not answer and optional:
            return answer
        try:
            check(answer)
        except UsageError as error:
            console.error(f"{error.message}{f'; {error.hint}' if error.hint else ''}")
        else:
            return answer


def _valid(key: str) -> Callable[[str], object]:
    """Return a check of a setting of nodes that raises UsageError."""

    def check(text: str) -> None:
        from pydantic import ValidationError

        from clusterctl.inventory.model import NodeSettings
        from clusterctl.inventory.shapes import shape_of

        try:
            NodeSettings.model_validate({key: text})
        except ValidationError:
            raise UsageError(f"{text[:60]!r} is not {shape_of((key,))}") from None
        if key == "identity_file" and not is_file(at_home(text)):
            raise UsageError(f"file not found: {at_home(text)}")

    return check


def _found(given: _Answers, groups: Sequence[str], folder: Path) -> ImportedInventory:
    from clusterctl.inventory import nodeset
    from clusterctl.inventory.imports.found import FoundNode, ImportedInventory
    from clusterctl.inventory.targets import inventory_of

    named: dict[str, Setting] = {}
    for key, value in (("identity_file", given.identity_file), ("proxy_jump", given.proxy_jump)):
        if value is not None:
            _valid(key)(value)
            named[key] = value
    if given.user is not None:
        _valid("user")(given.user)
    if given.identity_file is not None and folder.resolve() != Path.cwd():
        # A relative path in an inventory starts at the directory of the inventory.
        named["identity_file"] = str(at_home(given.identity_file).absolute())
    nodes: list[FoundNode] = []
    for node in inventory_of(given.targets or "").nodes:
        own = {"user": node.user or given.user, "port": node.port, **named}
        settings = {key: value for key, value in own.items() if value is not None}
        address = None if node.address == node.name else node.address
        nodes.append(FoundNode(node.name, "command line", 0, address, settings))
    members: dict[str, tuple[str, ...]] = {}
    for text in groups:
        name, equals, inside = text.partition("=")
        if not equals:
            raise UsageError(f"--group {text!r}: expected NAME=NODESET", hint="--group rack1='gpu[01-08]'")
        try:
            members[name] = nodeset.expand(inside)
        except nodeset.NodeSetError as error:
            raise UsageError(f"--group {name}: {error}", hint=error.hint) from None
        names = [node.name for node in nodes]
        if unknown := [member for member in members[name] if member not in names]:
            raise UsageError(
                f"--group {name}: {nodeset.fold(unknown)[:200]} is not among the targets",
                hint=f"targets: {nodeset.fold(names)}",
            )
    return ImportedInventory(tuple(nodes), members)


def _text(
    found: ImportedInventory, folder: Path, facts: HostMap[NodeFacts] | None = None
) -> tuple[Inventory, str]:
    """Return the inventory, loaded once to check it, and its text with comments on what was found."""
    from clusterctl.inventory import load
    from clusterctl.inventory.imports import writing
    from clusterctl.report.text import probed

    values = {} if facts is None else facts.values_by_node
    remarks = [] if facts is None else probed.remarks(values, facts.failures)
    text = writing.text(
        found,
        f"Written by clusterctl {__version__}: inventory init. Every key: docs/inventory.md",
        remarks=remarks,
        suggestions=probed.suggestions(values.values()),
    )
    return load.from_text(text, "the inventory", folder.resolve()), text


def _probed(
    inventory: Inventory,
    given: _Answers,
    again: tuple[str, ...],
    fanout: int | None,
    accept_new_host_keys: bool,
) -> HostMap[NodeFacts]:
    from clusterctl.cli.session import say_failures, session_of

    # Hints name the targets, because no file exists yet.
    named = inventory.model_copy(update={"source": given.targets})
    session = session_of(named, fanout=fanout, accept_new_host_keys=accept_new_host_keys, again=again)
    facts = session.gather(subjects=_SUBJECTS)
    say_failures(facts.failures)
    return facts
