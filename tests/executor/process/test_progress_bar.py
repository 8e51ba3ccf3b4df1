"""What a person sees while an executor drains."""

from collections.abc import Callable
from io import StringIO

import pytest

from django_delayed_tasks import clock
from django_delayed_tasks.executor.process.progress_bar import ProgressBar, drained

FULL = "#" * 30


class Terminal(StringIO):
    """It notes how much was written when it was flushed."""

    flushed = 0

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        self.flushed = self.tell()

    def lines(self) -> list[str]:
        """Each line that was drawn over the one before."""
        assert self.flushed == self.tell()
        return self.getvalue().split("\r")[1:]


@pytest.fixture
def pass_time(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass."""
    now = [100.0]
    monkeypatch.setattr(clock, "monotonic", lambda: now[0])

    def let_pass(seconds: float) -> None:
        now[0] += seconds

    return let_pass


def test_it_grows(pass_time: Callable[[float], None]) -> None:
    terminal = Terminal()
    bar = ProgressBar(3000, terminal)
    pass_time(2)
    for done in (0, 1000, 1500):
        bar.show(done)
    pass_time(1)
    bar.show(3000)
    assert terminal.lines() == [
        f"[{'':<30}] 0 of 3,000, 0/s ",
        f"[{'#' * 10:<30}] 1,000 of 3,000, 500/s ",
        f"[{'#' * 15:<30}] 1,500 of 3,000, 750/s ",
        f"[{FULL}] 3,000 of 3,000, 1,000/s ",
    ]


def test_what_is_added_meanwhile_counts(pass_time: Callable[[float], None]) -> None:
    terminal = Terminal()
    bar = ProgressBar(10, terminal)
    pass_time(1)
    bar.show(20)
    bar.show(20)
    assert terminal.lines() == [f"[{FULL}] 20 of 20, 20/s "] * 2


def test_nothing_to_do(pass_time: Callable[[float], None]) -> None:
    terminal = Terminal()
    bar = ProgressBar(0, terminal)
    bar.show(0)
    assert terminal.lines() == [f"[{FULL}] 0 of 0, 0/s "]


def test_the_first_moment(pass_time: Callable[[float], None]) -> None:
    terminal = Terminal()
    ProgressBar(2, terminal).show(2)
    assert terminal.lines() == [f"[{FULL}] 2 of 2, 2,000/s "]


def test_its_last_line(pass_time: Callable[[float], None]) -> None:
    terminal = Terminal()
    bar = ProgressBar(2000, terminal)
    pass_time(2.5)
    bar.close(2000)
    assert terminal.lines() == [f"[{FULL}] 2,000 of 2,000, 800/s \nDrained: 2,000 runs in 2.5 s.\n"]


def test_a_file_gets_the_last_line_alone(pass_time: Callable[[float], None]) -> None:
    file = StringIO()
    bar = ProgressBar(2, file)
    bar.show(1)
    pass_time(0.25)
    bar.close(2)
    assert file.getvalue() == "Drained: 2 runs in 0.2 s.\n"


def test_without_a_stream_it_is_the_output(
    pass_time: Callable[[float], None], capsys: pytest.CaptureFixture[str]
) -> None:
    ProgressBar(1).close(1)
    assert capsys.readouterr().out == "Drained: 1 run in 0.0 s.\n"


@pytest.mark.parametrize(
    ("ends", "line"),
    [
        ((1, 0), "Drained: 15 runs, 1 failed, in 0.0 s.\n"),
        ((0, 2), "Drained: 15 runs, 0 failed, 2 retried, in 0.0 s.\n"),
    ],
)
def test_failures_are_in_its_last_line(ends: tuple[int, int], line: str, pass_time: Callable[[float], None]) -> None:
    file = StringIO()
    ProgressBar(15, file, lambda count: drained(count, *ends)).close(15)
    assert file.getvalue() == line
