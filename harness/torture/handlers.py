"""The handlers under torture. Their data (``biz_ext``) is a dict with a ``nonce`` and what the handler is to do."""

import asyncio
import os
import random
import signal
import time
from datetime import timedelta
from threading import Barrier
from typing import Any

from asgiref.sync import sync_to_async

from django_delayed_tasks import Retry, TaskHandler
from django_delayed_tasks.outcomes import Done, Outcome
from harness.torture import histories, hooks
from harness.torture.codes import FOREIGN, MAX_RUNNING, concurrency_key
from harness.torture.linearizability import Operation
from harness.torture.misuse import ENDS, MISUSES, OF_ANOTHER, fork, misuse
from harness.torture.observing import observe
from harness.torture.texts import AS_TOLD, text_of_claim


class Ledgered(TaskHandler):
    """Writes a begin, does its work, writes its effect."""

    max_attempts = 1000
    """Attempts are lost to outages through no fault of the handler; what fails does so because it is meant to."""

    def backoff(self, attempt: int) -> timedelta:
        return timedelta(seconds=min(2.0, 0.05 * 2 ** min(attempt, 10)))

    def handle(self, task: Any) -> Outcome | timedelta | None:
        if not self.atomic:
            observe("begin", task)
        result = self.work(task)
        observe("effect", task)
        return result or of_claim(task)

    def work(self, task: Any) -> Outcome | timedelta | None:
        """Do what is between begin and effect; return the run's result."""
        return None


class Plain(Ledgered):
    biz_code = "t-plain"


class Atomic(Ledgered):
    biz_code = "t-atomic"
    atomic = True

    def work(self, task: Any) -> None:
        time.sleep(task.biz_ext.get("seconds", 0.0))


class Slow(Ledgered):
    """Takes ``seconds``."""

    biz_code = "t-slow"

    def work(self, task: Any) -> None:
        time.sleep(task.biz_ext.get("seconds", 0.3))


class Silent(Ledgered):
    """Has its effect at once, and then does not speak to the database for ``seconds``."""

    biz_code = "t-silent"

    def handle(self, task: Any) -> Done:
        observe("begin", task)
        observe("effect", task)
        time.sleep(task.biz_ext.get("seconds", 0.5))
        return of_claim(task)


class Deadly(Ledgered):
    """Ends its process."""

    biz_code = "t-deadly"

    def work(self, task: Any) -> None:
        hooks.die()


class Gated(Ledgered):
    """Stands still in its middle until its executor's gate is opened."""

    biz_code = "t-gated"

    def work(self, task: Any) -> None:
        hooks.pass_gate()


class AtomicGated(Gated):
    biz_code = "t-atomic-gated"
    atomic = True


class Leaving(Gated):
    """Tells its process to end, once two runs have begun, and stands still."""

    biz_code = "t-leaving"
    two = Barrier(2)

    def work(self, task: Any) -> None:
        if not self.two.wait(60.0):
            os.kill(os.getpid(), signal.SIGTERM)
        super().work(task)


class Fatal(Ledgered):
    """Ends its process until it has been rescued ``die`` times."""

    biz_code = "t-fatal"

    def work(self, task: Any) -> None:
        if task.rescues < task.biz_ext.get("die", 1):
            hooks.die()


class Hanging(Ledgered):
    """A handler whose first ``hang`` attempts hang for ``seconds``, longer than is allowed."""

    biz_code = "t-hanging"
    timeout = 1.0

    def work(self, task: Any) -> None:
        if task.attempts <= task.biz_ext.get("hang", 1):
            time.sleep(task.biz_ext.get("seconds", 600.0))


class Retrying(Ledgered):
    """A handler whose first ``fail`` attempts ask for another one, or raise."""

    biz_code = "t-retrying"

    def work(self, task: Any) -> Outcome | None:
        if task.attempts <= task.biz_ext.get("fail", 1):
            if task.attempts % 2:
                return Retry(after=timedelta(milliseconds=50), reason=complaint(task))
            raise ValueError(complaint(task))  # the traceback holds this line: 支付 😀
        return None


class Foreign(Retrying):
    biz_code = FOREIGN


class Failing(Ledgered):
    """Ends FAILED."""

    biz_code = "t-failing"
    max_attempts = 1

    def work(self, task: Any) -> None:
        raise ValueError(complaint(task))  # the traceback holds this line: 支付 😀


class Single(Ledgered):
    """Has one attempt, so an attempt that is counted although no run has started ends it FAILED."""

    biz_code = "t-single"
    max_attempts = 1


class Again(Ledgered):
    """Reschedules itself until ``again`` runs have been: counted in the ledger's own words, by version."""

    biz_code = "t-again"

    def work(self, task: Any) -> timedelta | None:
        return again(task)


class AtomicAgain(Again):
    biz_code = "t-atomic-again"
    atomic = True


class Limited(Ledgered):
    """A handler of which two run at a time in the whole cluster."""

    biz_code = "t-limited"
    max_concurrent = MAX_RUNNING["t-limited"]

    def work(self, task: Any) -> None:
        time.sleep(task.biz_ext.get("seconds", 0.0) / 10)


class Keyed(Limited):
    """A handler of which one runs at a time for each last digit of the number."""

    biz_code = "t-keyed"
    max_concurrent = MAX_RUNNING["t-keyed"]

    def concurrency_key(self, task: Any) -> str:
        return concurrency_key(task.biz_code, task.biz_num)


class Async(Ledgered):
    """A handler on the event loop."""

    biz_code = "t-async"

    async def handle(self, task: Any) -> Outcome | timedelta | None:  # type: ignore[override]
        await sync_to_async(observe)("begin", task)
        await asyncio.sleep(task.biz_ext.get("seconds", 0.02))
        await sync_to_async(observe)("effect", task)
        return of_claim(task)


class AtomicFlaky(Ledgered):
    """Raises after its effect in its first ``fail`` attempts: the effect must be gone."""

    biz_code = "t-atomic-flaky"
    atomic = True

    def handle(self, task: Any) -> Done:
        observe("effect", task)
        if task.attempts <= task.biz_ext.get("fail", 1):
            raise ValueError(complaint(task))
        return of_claim(task)


class Misusing(Ledgered):
    """Leaves its connections in disorder, after its effect."""

    biz_code = "t-misusing"

    def handle(self, task: Any) -> Done:
        result = super().handle(task)
        dice = random.Random(task.id * 1000 + task.version)
        misuse([(name, task.alias) for name in dice.choices(sorted(MISUSES), k=2)])
        assert isinstance(result, Done)
        return result


class AtomicMisusing(Misusing):
    """Leaves a block of its transaction open in its first ``fail`` attempts: its effect must be gone."""

    biz_code = "t-atomic-misusing"
    atomic = True

    def handle(self, task: Any) -> Done:
        observe("effect", task)
        if task.attempts <= task.biz_ext.get("fail", 1):
            MISUSES[("generator", "enter", "enter without savepoint", "close")[task.attempts % 4]](task.alias)
        return of_claim(task)


class Forking(Ledgered):
    """Forks a child, which must end as a process."""

    biz_code = "t-forking"

    def work(self, task: Any) -> None:
        ways = sorted(ENDS.keys() - {"return"})  # after its effect
        end, code = ENDS[ways[task.id % len(ways)]]
        ended = fork(end)
        if ended != code:
            raise AssertionError(f"{OF_ANOTHER}: the child has ended with {ended}, not {code}")


class Recorded(Slow):
    """Its begin and its end are written into the history of its identity."""

    biz_code = histories.CODE

    def handle(self, task: Any) -> Outcome | timedelta | None:
        notes, claim = hooks.notes(), f"{task.id}.{task.version}"
        notes.operation(task.biz_num, Operation("begin", 0.0, histories.now(), histories.BEGUN, claim))
        result = super().handle(task)
        notes.operation(task.biz_num, Operation("end", histories.now(), given=claim))
        return result


def of_claim(task: Any) -> Done:
    """Done, with the claim that did it: the history must keep it for this claim and no other."""
    return Done({"claim": task.version, "text": text_of_claim(task.id, task.version)})


def complaint(task: Any) -> str:
    """Return the error text of this claim; the invariants look for it."""
    return f"{AS_TOLD} {text_of_claim(task.id, task.version)}"


def again(task: Any) -> timedelta | None:
    """Another time, as long as fewer versions than ``again`` have been."""
    return timedelta(milliseconds=20) if task.version <= task.biz_ext.get("again", 2) else None
