"""What is drained to count conflicts; in an executor this also tells its output what became of each claim."""

import os
import sys
from typing import Any

from django_delayed_tasks import TaskHandler
from django_delayed_tasks.executor.membership.peers import Peers
from django_delayed_tasks.store.claiming import compare_and_set

CODE = "x-nothing"
TOLD = "claim: "


class Nothing(TaskHandler):
    """Does nothing, and not in the ledger."""

    biz_code = CODE

    def handle(self, task: Any) -> None:
        return None


def claims_told(output: str) -> list[tuple[int, int]]:
    """(wanted, won) of each claim in an executor's output."""
    lines = (line for line in output.splitlines() if line.startswith(TOLD))
    return [(int(wanted), int(won)) for wanted, won in (line.removeprefix(TOLD).split() for line in lines)]


def _without_affinity() -> None:
    Peers.refresh = lambda self, executor, live: None  # type: ignore[method-assign]


def _tell_claims() -> None:
    usual = compare_and_set.take

    def take(alias: str, dialect: Any, executor: int, chosen: list[Any]) -> list[Any]:
        won = usual(alias, dialect, executor, chosen)
        print(f"{TOLD}{len(chosen)} {len(won)}", file=sys.stderr, flush=True)
        return won

    compare_and_set.take = take


if "DDT_GALERA_AFFINITY" in os.environ:
    _tell_claims()
    if os.environ["DDT_GALERA_AFFINITY"] == "none":
        _without_affinity()
