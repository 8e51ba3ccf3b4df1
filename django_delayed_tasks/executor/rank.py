"""This executor's place among the live ones: claims prefer rows whose id falls to it."""

from dataclasses import dataclass


@dataclass(slots=True)
class Rank:
    """``mine`` of ``executors``, refreshed by housekeeping."""

    mine: int = 0
    executors: int = 1

    def refresh(self, executor: int, live: list[int]) -> None:
        """``live`` are the ids of all live executors, in order."""
        if executor in live:
            self.mine, self.executors = live.index(executor), len(live)
        else:
            self.mine, self.executors = 0, 1
