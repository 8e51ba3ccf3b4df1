"""``manage.py starttask``: claim due tasks and run them until a signal says to stop."""

import logging
import os
import sys
from argparse import ArgumentParser
from contextlib import AbstractContextManager
from dataclasses import fields
from functools import partial
from io import StringIO, TextIOWrapper
from typing import Any, TextIO

from django.core.management.base import CommandError, CommandParser, OutputWrapper
from django.db import Error, connections
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_delayed_tasks import __version__
from django_delayed_tasks.checks.databases import by_an_executor
from django_delayed_tasks.exceptions import InvalidSetting, TaskException
from django_delayed_tasks.executor.options import ExecutorOptions, from_settings
from django_delayed_tasks.executor.process.foreground import StopSignals, run_executor
from django_delayed_tasks.executor.process.in_process import refuse_if_no_executor_can_work
from django_delayed_tasks.executor.process.probes import ProbeTarget
from django_delayed_tasks.executor.process.supervisor import FINISHED, Supervisor, end_with_parent, is_supervised
from django_delayed_tasks.handlers import discovery, get_task_handlers, registry
from django_delayed_tasks.management import first_process, probing
from django_delayed_tasks.management.reloading import run_with_reloader
from django_delayed_tasks.management.shared import migrate_first, padded, refuse_unknown, require_main_thread
from django_delayed_tasks.management.streams import SteadyCommand
from django_delayed_tasks.store.sql import kept_connections

MAX_PROCESSES = 1000
"""Executors of one supervisor: more of them are a mistake, and would take all memory."""

NO_MODULES = gettext_lazy("none: no installed app has a module task_handlers, and TASK_HANDLERS names none")
NONE_IN_MODULES = gettext_lazy("none: %(modules)s registers no handler, and TASK_HANDLERS names none")


class Command(SteadyCommand):
    """Runs an executor, or several under a supervisor; options left out come from ``DELAYED_TASKS``.

    Exit codes: 0 after a graceful stop, 1 if it could not start, or has left runs behind, 75 if too many threads hang:
    start it again.
    """

    help = "Claim due tasks and run them until SIGTERM or SIGINT; a second signal ends the process at once."
    # handle() runs the checks: some query the database, and an unreachable one should give an error of one line.
    requires_system_checks = []

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        # An abbreviated --processes would be passed to the children, which would then supervise further children.
        return super().create_parser(prog_name, subcommand, allow_abbrev=False, **kwargs)

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--skip-checks", action="store_true", help="skip the system checks")
        parser.add_argument("--threads", type=int, help="threads that run tasks, in each process")
        parser.add_argument("--async-concurrency", type=int, help="async runs at a time, in each process")
        parser.add_argument(
            "--processes", type=int, default=1, help="executor processes under a supervisor (default 1)"
        )
        parser.add_argument("--queues", help="serve these queues only: a,b")
        parser.add_argument("--exclude-queues", help="serve all queues but these: c,d")
        parser.add_argument(
            "--name", help="a stable name: an executor started with it replaces a dead predecessor immediately"
        )
        parser.add_argument("--database", help="alias of the tasks' database")
        parser.add_argument("--poll-interval", type=float, help="seconds between two polls for due tasks")
        parser.add_argument("--drain", action="store_true", help="run until no task is due, then exit 0")
        parser.add_argument("--max-tasks", type=int, help="exit 0 after this many runs")
        parser.add_argument("--reload", action="store_true", help="start again when code changes (for development)")
        probing.add_arguments(parser)

    def handle(self, *args: Any, **given: Any) -> None:
        _write_lines_at_once()
        _format_log()
        self._out: TextIO = sys.stdout if given["verbosity"] else StringIO()
        require_main_thread("starttask", _("elsewhere call django_delayed_tasks.start()"))
        options, self._probes = self._options(given), probing.probes_of(given)
        if not 1 <= given["processes"] <= MAX_PROCESSES:
            values = {"option": "processes", "value": given["processes"], "most": MAX_PROCESSES}
            raise CommandError(_("--%(option)s=%(value)s: must be from 1 to %(most)s") % values)
        if given["reload"] and given["processes"] > 1:
            raise CommandError(_("--reload is for one process; leave out --processes"))
        if getattr(self, "_called_from_command_line", False):
            first_process.continue_below()
        with kept_connections.outside_of_pools():
            self._begin(options, given)

    def _begin(self, options: ExecutorOptions, given: dict[str, Any]) -> None:
        try:
            self._check_database(options.database)
            if not given["skip_checks"]:
                self._check(options.database)
        except Error as error:
            text = _("database %(alias)r cannot be reached: %(error)s")
            raise CommandError(text % {"alias": options.database, "error": error}) from None
        if given["reload"]:
            code = run_with_reloader(lambda signals: self._run_one(options, signals))
        else:
            code = self._run(options, given["processes"])
        if code:
            sys.exit(code)

    def _run(self, options: ExecutorOptions, processes: int) -> int:
        return self._supervise(options, processes) if processes > 1 else self._run_in_foreground(options)

    def _options(self, given: dict[str, Any]) -> ExecutorOptions:
        chosen = {one.name: given[one.name] for one in fields(ExecutorOptions) if one.name in given}
        for name in ("queues", "exclude_queues"):
            if given[name] is not None:
                chosen[name] = _names(name, given[name])
        try:
            return from_settings(**chosen)
        except InvalidSetting as error:
            raise CommandError(str(error)) from None

    def _check(self, alias: str) -> None:
        shown = self.stderr
        if self._out is not sys.stdout or is_supervised():  # the supervisor has just written the warnings
            self.stderr = OutputWrapper(StringIO())  # errors are raised
        try:
            with by_an_executor():
                self.check(databases=[alias])
        finally:
            self.stderr = shown

    def _check_database(self, alias: str) -> None:
        refuse_unknown(alias)
        try:
            refuse_if_no_executor_can_work(alias)
        except TaskException as error:
            raise CommandError(str(error)) from None
        if missing := migrate_first(alias):
            raise CommandError(missing)

    def _run_in_foreground(self, options: ExecutorOptions) -> int:
        is_child = is_supervised()
        # A program that runs another, such as `timeout`, may signal it and then its process group.
        with StopSignals(doubling=2.0 if is_child else 0.1).installed() as signals:
            end_with_parent()
            return self._run_one(options, signals) or (FINISHED if is_child else 0)

    def _run_one(self, options: ExecutorOptions, signals: StopSignals) -> int:
        try:
            self._banner(options)
            with kept_connections.outside_of_pools():  # the reloader calls this in another thread
                return run_executor(options, self._out, signals, partial(self._ready, options.name), self._answering)
        except (TaskException, Error, ValueError, OSError) as error:
            raise CommandError(str(error)) from None

    def _answering(self, executor: ProbeTarget) -> AbstractContextManager[None]:
        return probing.answering(self._probes, executor)

    def _supervise(self, options: ExecutorOptions, processes: int) -> int:
        if not getattr(self, "_called_from_command_line", False):
            raise CommandError(_("--processes starts this command repeatedly, which works only from a command line"))
        connections.close_all()
        self._say(_("Supervising %(count)d executors; Ctrl-C ends them.") % {"count": processes})
        supervisor = Supervisor(_command_of_a_child(sys.argv), options.name, processes, options.shutdown_timeout)
        try:
            with StopSignals().installed() as signals, probing.answering_for(self._probes, supervisor):
                return supervisor.run(signals)
        except (TaskException, OSError) as error:
            raise CommandError(str(error)) from None

    def _banner(self, options: ExecutorOptions) -> None:
        connection = connections[options.database]
        codes = sorted(get_task_handlers())
        lines = [
            (_("database"), f"{options.database} ({connection.display_name})"),
            (_("queues"), _queues_text(options)),
            (_("threads"), _threads_text(options)),
            (_("handlers"), f"{len(codes)}: {', '.join(codes) or _no_handlers()}"),
        ]
        title = _("django-delayed-tasks %(version)s: executor %(name)s")
        texts = [f"  {padded(name, 8)}  {value}" for name, value in lines]
        self._say("\n".join([title % {"version": __version__, "name": options.name}, *texts]))

    def _ready(self, name: str) -> None:
        self._say(_("Ready (executor %s). Ctrl-C stops it gracefully.") % name)

    def _say(self, text: str) -> None:
        if self._out is sys.stdout:
            self.stdout.write(text)
            self.stdout.flush()


def _write_lines_at_once() -> None:
    """Make each line that a handler prints appear at once: into a pipe or file Python would write it in blocks."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)


def _format_log() -> None:
    """Give lines of the log a time and a level in a project that has configured no handler for them."""
    if logging.lastResort is not None:
        text = "{asctime} {levelname} {name}: {message}"
        logging.lastResort.setFormatter(logging.Formatter(text, style="{"))


def _no_handlers() -> str:
    modules = ", ".join(discovery.modules())
    return str(NONE_IN_MODULES) % {"modules": modules} if modules else str(NO_MODULES)


def _queues_text(options: ExecutorOptions) -> str:
    served = _("all") if options.queues is None else ", ".join(options.queues)
    values = {"queues": served, "excluded": ", ".join(options.exclude_queues)}
    return _("%(queues)s but %(excluded)s") % values if options.exclude_queues else served


def _threads_text(options: ExecutorOptions) -> str:
    values = {"threads": options.threads, "async": options.async_concurrency, "seconds": f"{options.poll_interval:g}"}
    if registry.async_codes:
        return _("%(threads)d, and %(async)d async runs, polling every %(seconds)s s") % values
    return _("%(threads)d, polling every %(seconds)s s") % values


def _names(option: str, text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if not names:
        values = {"option": option.replace("_", "-"), "text": text}
        raise CommandError(_("--%(option)s=%(text)r: does not name a queue") % values)
    return names


def _command_of_a_child(argv: list[str]) -> list[str]:
    """Return this command without the options that only the supervisor uses."""
    own, rest = ("--processes", "--name"), []
    words = iter(argv)
    for word in words:
        if word in own:
            next(words, None)
        elif not word.startswith(tuple(f"{option}=" for option in own)):
            rest.append(word)
    return [sys.executable, *(["-m", "django", *rest[1:]] if _is_module(argv[0]) else rest)]


def _is_module(program: str) -> bool:
    # `python -m django`, or the script django-admin, which may not be a Python file.
    return os.path.basename(program) in ("__main__.py", "django-admin", "django-admin.exe")
