"""The problems that the overview, its banner and ``taskstatus`` show: what is wrong, and what to do about it."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from itertools import islice
from typing import Any, Final, Literal

from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from django_delayed_tasks.clock import SKEW
from django_delayed_tasks.handlers import find
from django_delayed_tasks.handlers.functions import is_function
from django_delayed_tasks.models import Task
from django_delayed_tasks.stats.backlogs import QueueBacklog, queues_of
from django_delayed_tasks.stats.figures import Figures
from django_delayed_tasks.stats.limits import Limited
from django_delayed_tasks.stats.reasons import Reason, closed, lacks_handler, was_refused
from django_delayed_tasks.stats.resources import pool_names
from django_delayed_tasks.stats.snapshot import LATE, MAX_RUNNING, Snapshot, take_snapshot
from django_delayed_tasks.stats.suspects import running_text
from django_delayed_tasks.store.claiming.waiting import COUNTED
from django_delayed_tasks.store.resources.retime import leases_ahead
from django_delayed_tasks.store.resources.usage import first_free
from django_delayed_tasks.store.schedules.retime import declared_ahead, mended, times_of
from django_delayed_tasks.store.sql.transactions import oldest_transaction
from django_delayed_tasks.support.durations import duration_text, number_text
from django_delayed_tasks.support.spans import local

Level = Literal["error", "warning", "info"]
LEVELS: Final = ("error", "warning", "info")

VERY_LATE: Final = timedelta(minutes=1)
"""The time after which a late task is a problem: a deploy delays tasks for less."""
MAX_OF_A_KIND: Final = 5
"""Things of one kind that are named: problems, codes, executors or reasons, of which there may be very many."""
_NAMESPACE: Final = re.compile(r" \([0-9a-f]+-[0-9]+\)$")
"""The end of a host's name that tells containers apart."""


@dataclass(frozen=True, slots=True)
class Problem(Figures):
    """One thing that is wrong, or good to know; ``kind`` is its name for programs, ``subject`` what it is about."""

    kind: str
    level: Level
    text: str
    advice: str
    subject: str = ""


def problems(*, using: str | None = None) -> list[Problem]:
    """Return the problems, errors first and information last; texts are in the language that is active."""
    return problems_of(take_snapshot(using))


def problems_of(seen: Snapshot, queues: list[QueueBacklog] | None = None) -> list[Problem]:
    """Like :func:`problems`, from a snapshot; ``queues`` are the queues of the backlog, if it was read already."""
    rows = queues_of(seen) if queues is None else queues
    kinds = (
        _no_executor(seen, rows), _unserved(seen, rows), _without_handler(seen), _empty_pools(seen), _late(seen, rows),
        _held_back(seen, rows), _crashed(seen), _lost(seen), _clocks(seen), written_ahead(seen), _pinned(seen),
        _paused(seen, rows),
        _limited(seen, rows),
    )  # fmt: skip
    found = [problem for kind in kinds for problem in islice(kind, MAX_OF_A_KIND)]
    return sorted(found, key=lambda problem: LEVELS.index(problem.level))


def _no_executor(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    if seen.alive:
        return
    open_queues = [queue for queue in queues if closed(seen, queue.name) is Reason.NO_EXECUTOR]
    due = sum(queue.due for queue in open_queues)
    text = _("No executor is alive.")
    if due:
        first = max(queue.latency for queue in open_queues)
        text = _("No executor is alive (%(tasks)s due, the first for %(time)s).")
        text %= {"tasks": tasks_text(due), "time": duration_text(first)}
    advice = _("Start one: manage.py starttask. If it is running, its log says why it cannot reach the database.")
    yield Problem(Reason.NO_EXECUTOR, "error" if due else "warning", text, advice)


def _unserved(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    for queue in queues:
        if closed(seen, queue.name) is not Reason.QUEUE_UNSERVED or queue.earliest is None:
            continue
        text = _("The queue “%(queue)s” has no executor.")
        values = {"queue": queue.name, "tasks": tasks_text(queue.due), "time": duration_text(queue.latency)}
        if queue.due:
            text = _("The queue “%(queue)s” has no executor (%(tasks)s due, the first for %(time)s).")
        advice = _("Start an executor that serves it: see --queues and --exclude-queues of starttask.")
        if meant := served_name_like(seen, queue.name):
            advice = _("Did you mean the queue “%s”? Otherwise, start an executor that serves it.") % meant
        yield Problem(Reason.QUEUE_UNSERVED, "error" if queue.due else "warning", text % values, advice, queue.name)


def served_name_like(seen: Snapshot, queue: str) -> str | None:
    """Return the queue of almost the same name that a live executor names; None if there is none."""
    served = {name for executor in seen.alive for name in executor.queues or ()}
    return next(iter(get_close_matches(queue, sorted(served), n=1, cutoff=0.75)), None)


def _without_handler(seen: Snapshot) -> Iterator[Problem]:
    for code, is_of_function in codes_without_handler(seen).items():
        text = _("Tasks of the code “%s” wait, and no executor of their queue has a handler for it.") % code
        advice = _(
            "Deploy the handler, in task_handlers.py of an installed app or named in TASK_HANDLERS, and restart"
            " starttask: its tasks run up to a minute later. If the code is gone, cancel the tasks."
        )
        if is_of_function:
            advice = _(
                "An executor's log says why it cannot be imported. If the function has moved to another module, import"
                " it in the old one as well; if it is gone, cancel the tasks."
            )
        yield Problem(Reason.CODE_WITHOUT_HANDLER, "error", text, advice, code)


def codes_without_handler(seen: Snapshot, only: Collection[str] | None = None) -> dict[str, bool]:
    """Return the codes of tasks that wait and that no live executor of their queue can run; ``only`` in these queues.

    For each code, the value says whether it is that of a function of the Tasks framework.

    Executors put such tasks off for a minute each time that they look at them, so most of them are not due.
    """
    waiting = [*seen.first_due, *(task for task in seen.next.tasks if task.when <= seen.now)]
    named = [task for task in waiting if (only is None or task.queue in only) and lacks_handler(seen, task)]
    codes = {code: _is_code_of_function(seen.alias, code) for code in sorted({task.biz_code for task in named})}
    # Executors import the module of a function when they claim its first task.
    refused = {task.biz_code for task in named if was_refused(seen, task)}
    return {code: is_of_function for code, is_of_function in codes.items() if code in refused or not is_of_function}


def _is_code_of_function(alias: str, code: str) -> bool:
    """Return whether a task of this code is one of the Tasks framework's functions."""
    rows: Any = Task.objects.using(alias).filter(biz_code=code).values_list("biz_ext", flat=True)
    with suppress(ValueError, RecursionError):  # data that cannot be parsed
        return any(map(is_function, rows[:1]))
    return False


def _empty_pools(seen: Snapshot) -> Iterator[Problem]:
    late = seen.now - LATE
    waiting = [task for task in seen.first_due if task.claim_at <= late]
    codes = {task.biz_code for task in waiting if closed(seen, task.queue) is not Reason.QUEUE_PAUSED}
    pools = {code: handler.pool for code in codes if (handler := find(code)) and handler.pool}
    usable = first_free(seen.alias, set(pools.values()))
    for code, pool in sorted(pools.items()):
        if pool not in usable:
            text = _("Tasks of the code “%(code)s” wait, and the pool “%(pool)s” has no resource that is enabled.")
            advice = _("Add resources to the pool, or enable its resources.")
            yield Problem("pool_empty", "error", text % {"code": code, "pool": pool}, advice, pool)


def _late(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    for queue in queues:
        if queue.latency <= VERY_LATE or closed(seen, queue.name):
            continue
        values = {"queue": queue.name, "tasks": tasks_text(queue.ready), "time": duration_text(queue.latency)}
        values["threads"] = threads_clause(seen, queue.name)
        if grows(seen, queue):
            text = _("The queue “%(queue)s” is late by %(time)s, and the lateness grows (%(tasks)s due). %(threads)s.")
            advice = _("Start more executors, or give them more threads.")
            if seen.idle_threads(queue.name):
                advice = _("The log of the executors says why they do not claim these tasks.")
            yield Problem("late_and_growing", "error", text % values, advice, queue.name)
        else:
            text = _("The queue “%(queue)s” is late by %(time)s (%(tasks)s due). %(threads)s.")
            advice = _("Executors are catching up, or these tasks have no handler.")
            yield Problem("late", "warning", text % values, advice, queue.name)


def grows(seen: Snapshot, queue: QueueBacklog) -> bool:
    """Return whether a queue is later now than it was a minute or more ago."""
    now = seen.now.timestamp()
    for moment, latencies in seen.survey.data.get("late", []):
        if now - moment >= VERY_LATE.total_seconds():
            before = timedelta(seconds=latencies.get(f"{queue.name}{_first_lane(seen, queue)}", 0))
            return queue.latency > before + timedelta(seconds=30)
    return False


def _first_lane(seen: Snapshot, queue: QueueBacklog) -> str:
    """Return the lane of the task that has been due for the longest time and that no limit holds back."""
    levels = [level for level in seen.agenda.levels if level.queue == queue.name and level.earliest == queue.earliest]
    return min((level.lane for level in levels), default="")


def threads_clause(seen: Snapshot, queue: str) -> str:
    """Return, as a sentence without its end, whether the threads that serve a queue are busy, and with what."""
    serving = {one.pk: one.threads for one in seen.serving(queue)}
    threads, idle = sum(serving.values()), seen.idle_threads(queue)
    codes = Counter(task.biz_code for task in seen.in_threads if task.executor in serving)
    if idle:
        text = ngettext("The only thread is idle", "%(idle)d of %(threads)d threads are idle", threads)
    elif codes.total() > threads:
        text = _("All threads (%(threads)d) are busy; claimed are %(codes)s")
    else:
        text = ngettext("The only thread is busy: %(codes)s", "All %(threads)d threads are busy: %(codes)s", threads)
    named = [f"{count} {code}" for code, count in codes.most_common(MAX_OF_A_KIND)]
    more = ["…"] if len(codes) > len(named) else []
    return text % {"threads": threads, "idle": idle, "codes": ", ".join([*named, *more])}


def _limited(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    for one in (one for queue in queues for one in queue.limited):
        if seen.now - one.since > VERY_LATE:
            text = ngettext(
                "%(tasks)s of %(code)s waits for %(limit)s; more executors will not help.",
                "%(tasks)s of %(code)s wait for %(limit)s; more executors will not help.",
                one.tasks,
            )
            first = _("The first has waited for %s.") % duration_text(seen.now - one.since)
            advice = _("Raise the limit if that is too long.")
            yield Problem(Reason.LIMITED, "info", f"{limited_text(one, text)} {first}", advice, one.code)


def _held_back(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    for one in (queue.held_back for queue in queues if queue.held_back):
        text = _(
            "Executors died while tasks of the queue “%(queue)s” ran, and one of these may be the cause, so they run "
            "one at a time: %(tasks)s held back, the first for %(time)s, while %(suspects)s."
        )
        values = {"queue": one.queue, "time": duration_text(seen.now - one.since), "tasks": tasks_text(one.tasks)}
        advice = _("More processes run more of them at a time. A handler that may hang needs a timeout.")
        text %= {**values, "suspects": running_text(one.behind)}
        yield Problem(Reason.HELD_BACK, "warning", text, advice, one.queue)


def limited_text(one: Limited, text: str) -> str:
    """Return a text about tasks that wait for a limit, with their number, code and limit filled in."""
    tasks = tasks_text(one.tasks) if one.is_exact else _("at least %s") % tasks_text(one.tasks)
    return text % {"tasks": tasks, "code": one.code, "limit": one.limit}


def _crashed(seen: Snapshot) -> Iterator[Problem]:
    for executor in seen.crashed:
        ago = duration_text(seen.now - executor.expires_at)
        text = _("The executor “%(name)s” on %(host)s crashed %(time)s ago, and is not back yet.")
        values = {"name": executor.name, "host": host_text(executor.host), "time": ago}
        advice = _(
            "A supervisor starts it again after a pause, of 30 s at most. See its log and the kernel's: it was killed, "
            "ran out of memory, or could not renew its lease."
        )
        yield Problem("executor_crashed", "warning", text % values, advice, executor.name)


def _lost(seen: Snapshot) -> Iterator[Problem]:
    for executor in seen.executors:
        if executor.expires_at >= seen.now - LATE:
            continue
        text = _("The executor “%(name)s” has not renewed its lease for %(time)s, and no other has taken its tasks.")
        values = {"name": executor.name, "time": duration_text(seen.now - executor.heartbeat_at)}
        yield Problem("executor_lost", "error", text % values, _("Start an executor: it takes them."), executor.name)


def _clocks(seen: Snapshot) -> Iterator[Problem]:
    advice = _("Synchronize the clocks (NTP, chrony).")
    if abs(seen.host_ahead) > SKEW:
        text = _("The clock of this host is %s behind that of the database.")
        if seen.host_ahead > SKEW:
            text = _("The clock of this host is %s ahead of that of the database.")
        yield Problem("clock_skew", "warning", text % duration_text(seen.host_ahead), advice)
    for executor in seen.executors:
        ahead = executor.heartbeat_at - seen.time_by_now
        if ahead > SKEW:
            text = _("The last heartbeat of “%(name)s” lies %(time)s in the future: the database's clock was set back.")
            values = {"name": executor.name, "time": duration_text(ahead)}
            yield Problem("clock_skew", "warning", text % values, advice, executor.name)
            return
    for executor in {executor.host: executor for executor in seen.alive}.values():
        ahead = executor.host_time - executor.heartbeat_at if executor.host_time else timedelta()
        if abs(ahead) > SKEW:
            text = _("The clock of %(host)s, where “%(name)s” runs, is %(time)s behind that of the database.")
            if ahead > SKEW:
                text = _("The clock of %(host)s, where “%(name)s” runs, is %(time)s ahead of that of the database.")
            values = {"host": host_text(executor.host), "name": executor.name, "time": duration_text(ahead)}
            yield Problem("clock_skew", "warning", text % values, advice, executor.name)


def written_ahead(seen: Snapshot, only: Collection[str] | None = None) -> Iterator[Problem]:
    """Yield a problem for each task and lease that was written while the clock was ahead; ``only`` in these queues.

    Tasks that handlers declared are all looked up; of others, the next ones.
    """
    advice = _("Run: manage.py tasks retime. Otherwise it is right again by then.")
    waiting: list[Any] = [*seen.next.tasks, *declared_ahead(seen.alias, seen.now)]
    rests = {
        (task.biz_code, task.when, task.claim_at)
        for task in waiting
        if task.trigger_text and (only is None or task.queue in only) and mended(times_of(task), seen.now)
    }
    if rests:
        code, until, _claim_at = min(rests, key=lambda rest: rest[1])
        text = ngettext(
            "%(code)s waits until %(time)s, which its trigger would not do: was the clock ahead?",
            "%(code)s waits until %(time)s, which its trigger would not do, and so do others (%(tasks)s in all): was"
            " the clock ahead?",
            len(rests),
        )
        values = {"code": code, "time": moment_text(until), "tasks": tasks_text(len(rests))}
        yield Problem("clock_was_ahead", "warning", text % values, advice, code)
    leases = leases_ahead(seen.alias, seen.now, list(pool_names(seen.alias)))
    if lease := leases.order_by("pool", "busy_before").first():
        text = _(
            "“%(name)s” (%(pool)s) is leased until %(time)s, which its holder did not ask for: was the clock ahead?"
        )
        values = {"name": lease.name, "pool": lease.pool, "time": moment_text(lease.busy_before)}
        yield Problem("lease_ahead", "warning", text % values, advice, lease.pool)


def moment_text(moment: datetime) -> str:
    """Return a moment in the current time zone."""
    return f"{local(moment):%Y-%m-%d %H:%M:%S %Z}"


def _pinned(seen: Snapshot) -> Iterator[Problem]:
    oldest = oldest_transaction(seen.alias)
    if oldest and oldest[0] > timedelta(minutes=10):
        text = _("A transaction has been open for %(time)s (session %(session)s of the database).")
        values = {"time": duration_text(oldest[0]), "session": oldest[1]}
        advice = _("The database keeps what was deleted since: pages and claims become slower. End it if it hangs.")
        yield Problem("old_transaction", "warning", text % values, advice, str(oldest[1]))


def _paused(seen: Snapshot, queues: list[QueueBacklog]) -> Iterator[Problem]:
    for queue in queues:
        if closed(seen, queue.name) is Reason.QUEUE_PAUSED and queue.due:
            text = _("The queue “%(queue)s” is paused (%(tasks)s due).")
            values = {"queue": queue.name, "tasks": tasks_text(queue.due)}
            advice = _("Resume it on the page of queues.")
            yield Problem(Reason.QUEUE_PAUSED, "warning", text % values, advice, queue.name)


def tasks_text(count: int) -> str:
    """Return a number of tasks in words: "1 task", "more than 1000 tasks"."""
    if count > COUNTED:
        return _("more than %s tasks") % number_text(COUNTED)
    return ngettext("%s task", "%s tasks", count) % number_text(count)


def bounded(count: float, text: Callable[[float], str]) -> str:
    """Return a number of tasks as a text: one that stands for "more than" a bound is the bound with ">"."""
    more_than = {COUNTED + 1: COUNTED, MAX_RUNNING + 1: MAX_RUNNING}.get(int(count))
    return text(count) if more_than is None else f"> {text(more_than)}"


def threads_text(count: int) -> str:
    """Return a number of threads in words."""
    return ngettext("%d thread", "%d threads", count) % count


def served_text(queues: Sequence[str] | None, excluded: Sequence[str]) -> str:
    """Return which queues are served; None stands for all."""
    served: str = _("all") if queues is None else ", ".join(queues)
    if not excluded:
        return served
    return _("%(queues)s but %(excluded)s") % {"queues": served, "excluded": ", ".join(excluded)}


def busy_text(claimed: int, threads: int) -> str:
    """Return how many threads are busy, and how many tasks are claimed if these are more.

    The others wait for a thread, or are on the event loop.
    """
    text: str = _("%(busy)d of %(threads)d") % {"busy": min(claimed, threads), "threads": threads}
    if claimed <= threads:
        return text
    return _("%(busy)s, %(claimed)d claimed") % {"busy": text, "claimed": claimed}


def host_text(host: str) -> str:
    """Return the name of a host without the namespace of its processes."""
    return _NAMESPACE.sub("", host)
