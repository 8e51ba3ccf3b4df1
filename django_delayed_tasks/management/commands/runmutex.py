"""``manage.py runmutex NAME -- command …``: run a command while holding a mutex."""

import sys
from argparse import ArgumentParser
from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError
from django.db import DatabaseError, Error
from django.utils.translation import gettext as _

from django_delayed_tasks.exceptions import InvalidTask, ResourceUnavailable
from django_delayed_tasks.leases import Mutex, mutex
from django_delayed_tasks.management.guarded import LOST, GuardedCommand
from django_delayed_tasks.management.shared import refuse_unknown, require_main_thread, text_of
from django_delayed_tasks.management.streams import SteadyCommand


class Command(SteadyCommand):
    """Runs a command while holding a mutex.

    Exit codes: the command's own, or 128 + n if signal n ended it; 75 if another process holds the mutex (EX_TEMPFAIL
    of sysexits.h), 76 if the mutex was lost and the command was ended, 126 if the command cannot be run, 127 if it does
    not exist, 1 for any other error.
    """

    help = "Run a command while holding a mutex, and end the command if the mutex is lost."
    requires_system_checks = []
    stealth_options = ("command",)
    command: Sequence[str] = ()

    def run_from_argv(self, argv: list[str]) -> None:
        # Parsed here, because argparse's treatment of a second "--" depends on Python's version.
        end = argv.index("--") if "--" in argv else len(argv)
        self.command = argv[end + 1 :]
        super().run_from_argv(argv[:end])

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("name", help="the mutex")
        parser.add_argument(
            "--ttl", type=float, default=10.0, help="seconds until it is free if its holder dies (default 10)"
        )
        parser.add_argument(
            "--at-least", type=float, default=0.0, help="seconds for which it is held even if the command ends earlier"
        )
        parser.add_argument("--at-most", type=float, help="seconds after which the command is ended")
        parser.add_argument("--wait", type=float, default=0.0, help="seconds to wait for it (default 0)")
        parser.add_argument("--database", help="alias of its database")
        parser.usage = "%(prog)s NAME [options] -- command ..."

    def handle(self, *args: Any, **given: Any) -> None:
        require_main_thread("runmutex", _("elsewhere use django_delayed_tasks.leases.mutex()"))
        command = list(given.get("command") or self.command)
        if not command:
            raise CommandError(_("which command? It is given at the end, after --"))
        alias = given["database"]
        refuse_unknown(alias)
        try:
            code = self._run(given, command)
        except ResourceUnavailable as error:
            self.stderr.write(str(error))
            sys.exit(75)
        except (InvalidTask, DatabaseError) as error:
            raise CommandError(text_of(error, alias)) from None
        if code == LOST:
            self.stderr.write(_("mutex %r was lost: the command was ended") % given["name"])
        if code:
            sys.exit(code)

    def _run(self, given: dict[str, Any], command: list[str]) -> int:
        options = {name: given[name] for name in ("ttl", "wait", "at_least", "at_most")}
        guard = mutex(given["name"], using=given["database"], **options)
        lease = guard.__enter__()
        try:
            return GuardedCommand(command, lease).run()
        finally:
            self._give_back(guard)

    def _give_back(self, guard: Mutex) -> None:
        # The command's exit code must be returned even if the mutex cannot be given back.
        try:
            guard.__exit__(None, None, None)
        except Error as error:
            text = _("mutex %(name)r could not be given back; it is free after its ttl: %(error)s")
            self.stderr.write(text % {"name": guard.name, "error": error})
