"""Every write to a row, one file per verb. Each takes the database alias; none reads it from settings."""

from django_delayed_tasks.store.adding import add
from django_delayed_tasks.store.adding_many import add_many
from django_delayed_tasks.store.agenda import Agenda, Level, read_agenda
from django_delayed_tasks.store.cancelling import cancel, cancel_claim, delete
from django_delayed_tasks.store.claiming import ClaimRequest, Outpaced, Strategy, strategy_for
from django_delayed_tasks.store.claims import ClaimedTask
from django_delayed_tasks.store.finding import find_pending, find_runs
from django_delayed_tasks.store.history import purge
from django_delayed_tasks.store.levels import KnownLevels, LevelKey
from django_delayed_tasks.store.progress import write_progress
from django_delayed_tasks.store.reaping import held_by, reap, release
from django_delayed_tasks.store.recurring import recurrence
from django_delayed_tasks.store.rescheduling import reschedule
from django_delayed_tasks.store.settling import Settlement, settle, settle_soon
from django_delayed_tasks.store.settling_alone import settle_run
from django_delayed_tasks.store.successes import purge_successes
from django_delayed_tasks.store.validation import Schedule

__all__ = [
    "Agenda",
    "ClaimRequest",
    "ClaimedTask",
    "KnownLevels",
    "Level",
    "LevelKey",
    "Outpaced",
    "Schedule",
    "Settlement",
    "Strategy",
    "add",
    "add_many",
    "cancel",
    "cancel_claim",
    "delete",
    "find_pending",
    "find_runs",
    "held_by",
    "purge",
    "purge_successes",
    "read_agenda",
    "reap",
    "recurrence",
    "release",
    "reschedule",
    "settle",
    "settle_run",
    "settle_soon",
    "strategy_for",
    "write_progress",
]
