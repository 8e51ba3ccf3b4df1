"""A second connection to the test database, in a thread that closes it."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

from django.db import connections

T = TypeVar("T")
JOIN_TIMEOUT = 60.0  # seconds


class DatabaseThread(threading.Thread, Generic[T]):
    """Runs `function` with database connections of its own, closed when it returns."""

    def __init__(self, function: Callable[[], T]) -> None:
        super().__init__(name=f"test-{getattr(function, '__name__', 'function')}", daemon=True)
        self.function = function
        self.value: T
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            self.value = self.function()
        except BaseException as error:
            self.error = error
        finally:
            connections.close_all()

    def result(self, timeout: float = JOIN_TIMEOUT) -> T:
        """Return what `function` returned; raise its error, or TimeoutError if it does not end in time."""
        self.join(timeout)
        if self.is_alive():
            raise TimeoutError(f"{self.name} has not ended within {timeout} s.")
        if self.error is not None:
            raise self.error
        return self.value


def start_thread(function: Callable[[], T]) -> DatabaseThread[T]:
    """Start `function` in another thread."""
    thread = DatabaseThread(function)
    thread.start()
    return thread


def in_thread(function: Callable[[], T], timeout: float = JOIN_TIMEOUT) -> T:
    """Run `function` on another connection, wait for it and return its result."""
    return start_thread(function).result(timeout)


class KeptThread:
    """One thread that runs one function after the other, on connections that it keeps until the block ends."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "test-kept")
        self._future: Future[Any] | None = None

    def __enter__(self) -> "KeptThread":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.submit(connections.close_all)
        self._pool.shutdown()

    def start(self, function: Callable[[], Any]) -> None:
        """Start `function`; the one before has to have ended."""
        assert self._future is None
        self._future = self._pool.submit(function)

    def is_alive(self) -> bool:
        return self._future is not None and not self._future.done()

    def join(self, timeout: float) -> None:
        """Wait until the function has returned, at most so long."""
        assert self._future
        wait([self._future], timeout)

    def result(self, timeout: float = JOIN_TIMEOUT) -> Any:
        """Return what the function returned, or raise its error; then another one may be started."""
        future, self._future = self._future, None
        assert future
        return future.result(timeout)
