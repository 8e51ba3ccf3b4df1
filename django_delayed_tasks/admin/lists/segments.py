"""The order of the list of tasks: overdue, failed, running, then the next ones, and paused ones last.

Each segment is read from the claim index, level by level, and no further than the page needs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from heapq import merge
from itertools import islice
from typing import Any, Final

from django.db.models import Q, QuerySet

from django_delayed_tasks.admin.lists.filters import MAX_LEVELS, range_of
from django_delayed_tasks.conf import settings
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import TaskStatus
from django_delayed_tasks.store.claiming.agenda import Agenda, Level
from django_delayed_tasks.store.sql.lanes import BLOCKED

BY_LEVEL: Final = ("lane", "queue", "priority", "claim_at", "id")

Rows = QuerySet[Any]
Segment = Callable[[int], Iterable[int]]


@dataclass(frozen=True, slots=True)
class Order:
    """The segments of the tasks in ``rows``; ``statuses`` are those that these may have, ``agenda`` what waits."""

    rows: Rows
    statuses: frozenset[int]
    agenda: Agenda
    queue: str | None = None

    def keys(self, count: int) -> list[int] | None:
        """Return the first ``count`` keys; None if there are too many levels."""
        levels = [level for level in self.agenda.levels if self._has(level.queue)]
        failed = list(islice(self._failed_levels(), MAX_LEVELS + 1))
        if max(len(levels), len(failed)) > MAX_LEVELS:
            return None
        found: list[int] = []
        for status, segment in self._segments(levels, failed):
            if status in self.statuses and len(found) < count:
                found += segment(count - len(found))
        return found

    def _has(self, queue: str) -> bool:
        return self.queue in (None, queue)

    def _segments(self, levels: list[Level], failed: list[Q]) -> Iterator[tuple[int, Segment]]:
        yield TaskStatus.PENDING, lambda count: self._merged(levels, Q(claim_at__lte=self.agenda.now), count)
        yield TaskStatus.FAILED, lambda count: self._newest(failed, count)
        yield TaskStatus.RUNNING, lambda count: self._of(TaskStatus.RUNNING, count)
        yield TaskStatus.PENDING, lambda count: self._merged(levels, Q(claim_at__gt=self.agenda.now), count)
        yield TaskStatus.PAUSED, lambda count: self._of(TaskStatus.PAUSED, count)

    def _of(self, status: int, count: int) -> list[int]:
        return list(self.rows.filter(status=status).order_by(*BY_LEVEL).values_list("pk", flat=True)[:count])

    def _merged(self, levels: list[Level], condition: Q, count: int) -> list[int]:
        """Return the keys of the first tasks of all levels, by the time from which they can be claimed."""
        some = [self._first(level, condition, count) for level in levels]
        return [key for _, key in islice(merge(*some), count)]

    def _first(self, level: Level, condition: Q, count: int) -> list[tuple[datetime, int]]:
        """Return the first tasks of a level; blocked ones as the index has them, which is by their keys."""
        order = BY_LEVEL if level.lane == BLOCKED else ("claim_at", "id")
        found = self.rows.filter(condition & range_of(level)).order_by(*order)
        return sorted(found.values_list("claim_at", "pk")[:count])

    def _newest(self, levels: list[Q], count: int) -> list[int]:
        """Return the keys of the tasks that failed last: ``claim_at`` of a failed task is when it failed."""
        failed = self.rows.filter(status=TaskStatus.FAILED).order_by("-claim_at", "-id").values_list("claim_at", "pk")
        some = [list(failed.filter(level)[:count]) for level in levels]
        return [key for _, key in islice(merge(*some, reverse=True), count)]

    def _failed_levels(self) -> Iterator[Q]:
        if TaskStatus.FAILED not in self.statuses:
            return
        tasks: Any = Task.objects.using(settings.DATABASE).filter(status=TaskStatus.FAILED)
        # A column with only one value is not sorted by: with it, MariaDB would sort instead of following the index.
        by_lane = tasks.order_by("lane", "queue", "priority").values_list("lane", "queue", "priority")
        by_queue, by_priority = by_lane.order_by("queue", "priority"), by_lane.order_by("priority")
        level = by_lane.first()
        while level:
            lane, queue, priority = level
            if self._has(queue):
                yield Q(lane=lane, queue=queue, priority=priority)
            level = (
                by_priority.filter(lane=lane, queue=queue, priority__gt=priority).first()
                or by_queue.filter(lane=lane, queue__gt=queue).first()
                or by_lane.filter(lane__gt=lane).first()
            )
