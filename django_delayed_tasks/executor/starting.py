"""The start of claimed tasks: they are announced, admitted, and queued for a thread or the event loop."""

from collections.abc import Collection, Mapping

from django_delayed_tasks.executor import announcing
from django_delayed_tasks.executor.admission import Admission
from django_delayed_tasks.executor.held import Held
from django_delayed_tasks.executor.running.run_queue import RunQueue
from django_delayed_tasks.executor.threads.handover import hand_over
from django_delayed_tasks.handlers import find
from django_delayed_tasks.store.claiming.claimed_task import ClaimedTask
from django_delayed_tasks.store.settling.settlement import Settlement
from django_delayed_tasks.store.sql.lanes import lane_of


class Starting:
    """Starts tasks that were claimed; thread-safe."""

    def __init__(self, held: Held, admission: Admission, queue: RunQueue) -> None:
        self._held = held
        self._admission = admission
        self._queue = queue

    def start(self, tasks: list[ClaimedTask], lane: str, began: float) -> None:
        """Hold and start tasks without permits that were claimed from a lane, by statements that ``began`` then."""
        are_plain = _are_plain(tasks, lane)
        self._held.add(tasks)
        announcing.claimed(tasks, began)
        to_run = tasks if are_plain else self._in_lane(lane, self._admission.admit(tasks))
        self._queue.put(to_run)
        self._hand_over(to_run)

    def start_permitted(
        self, tasks: Collection[ClaimedTask], began: float, ends: Mapping[ClaimedTask, Settlement] | None = None
    ) -> None:
        """Start tasks that are held, with their permits; those in ``ends`` end without a run."""
        announcing.claimed(tasks, began)
        ended = {task: ends[task] for task in tasks if task in ends} if ends else {}
        for task, settlement in ended.items():
            self._held.end([task.claim], [settlement])
        to_run = self._admission.admit([task for task in tasks if task not in ended])
        self._queue.put_permitted(to_run)
        self._hand_over(to_run)

    def _hand_over(self, tasks: list[ClaimedTask]) -> None:
        """Let idle threads begin tasks before this one continues; busy ones need no more at once."""
        if tasks and self._held.capacity.has_idle_threads:
            hand_over()

    def _in_lane(self, lane: str, tasks: list[ClaimedTask]) -> list[ClaimedTask]:
        """Return the tasks that this lane is for; the others, whose handler was another one, are moved into theirs."""
        lanes = {code: lane_of(code, find(code)) for code in {task.biz_code for task in tasks}}
        for task in tasks:
            if lanes[task.biz_code] != lane:
                self._held.release([task], lane=lanes[task.biz_code])
        return [task for task in tasks if lanes[task.biz_code] == lane]


def _are_plain(tasks: list[ClaimedTask], lane: str) -> bool:
    """Return whether each task has a handler here and is in its lane, and none has been rescued."""
    handlers = {task.biz_code: find(task.biz_code) for task in tasks}
    special = [code for code, handler in handlers.items() if not handler or lane_of(code, handler) != lane]
    return not special and not [task for task in tasks if task.rescues]
