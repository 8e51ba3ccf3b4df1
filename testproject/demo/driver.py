"""Runs many stories at once on a few threads."""

import heapq
import time
import traceback
from collections.abc import Generator, Iterable
from threading import Condition, Thread

from testproject.demo.client import ShopClient

Story = Generator[float, ShopClient, None]
"""What one customer does: yields the seconds to wait, and is then sent a browser to continue with."""


class Driver:
    """Takes each story on when its time has come.

    Attributes:
        problems: the tracebacks of the stories that raised an exception.
    """

    def __init__(self, address: str, stories: Iterable[Story], threads: int) -> None:
        begin = time.monotonic()
        self.agenda = [(begin + next(story), index, story) for index, story in enumerate(stories)]
        heapq.heapify(self.agenda)
        self.unfinished = len(self.agenda)
        self.changed = Condition()
        self.problems: list[str] = []
        browsers = [ShopClient(address) for _ in range(threads)]
        self.threads = [Thread(target=self.work, args=[browser], daemon=True) for browser in browsers]

    def start(self) -> None:
        for thread in self.threads:
            thread.start()

    @property
    def finished(self) -> bool:
        return not self.unfinished

    def work(self, client: ShopClient) -> None:
        while (step := self.next_step()) is not None:
            index, story = step
            try:
                pause = story.send(client)
            except StopIteration:
                self.end_story()
            except Exception:
                self.problems.append(traceback.format_exc())
                self.end_story()
            else:
                self.come_back(index, story, pause)

    def next_step(self) -> tuple[int, Story] | None:
        """Return the next story and wait for its time; None when all have ended."""
        with self.changed:
            while self.unfinished:
                wait = self.agenda[0][0] - time.monotonic() if self.agenda else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self.agenda)[1:]
                self.changed.wait(wait)
            return None

    def come_back(self, index: int, story: Story, pause: float) -> None:
        with self.changed:
            heapq.heappush(self.agenda, (time.monotonic() + pause, index, story))
            self.changed.notify()

    def end_story(self) -> None:
        with self.changed:
            self.unfinished -= 1
            self.changed.notify_all()
