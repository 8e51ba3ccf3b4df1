"""The demonstration itself, on a database that is ready."""

import signal
import sys
import time
from argparse import Namespace
from collections.abc import Mapping, Sequence
from datetime import datetime

from django.utils import timezone

from django_delayed_tasks.models import Executor
from testproject.demo.book import Book
from testproject.demo.checks import Rows, open_tasks
from testproject.demo.driver import Driver
from testproject.demo.gateways import gateway_problems, tokens
from testproject.demo.imports import Imports, import_problems
from testproject.demo.nights import report_problems
from testproject.demo.processes import STARTING, ProcessFailed, PythonProcess, executor, web_server
from testproject.demo.progress import Progress
from testproject.demo.report import print_check, print_checks, print_events, print_lateness
from testproject.demo.stories import all_stories
from testproject.shop.conf import reminder_every
from testproject.shop.models import Order, Promotion

BROWSERS = 8
GLANCE = 0.5
"""Seconds between two looks at the rows."""
LAST_WAIT = 60.0
"""Seconds after the last story in which everything must have happened."""


def perform(options: Namespace, products: Sequence[int]) -> bool:
    """Opens the shop, lets the stories happen, checks what came out, closes the shop; whether all holds."""
    book, opened_at, turns = Book(), timezone.now(), tokens()
    try:
        with web_server() as server, executor() as worker, Imports() as imports:
            address = server.wait_for(r"Listening on (http://\S+)")
            wait_for_executor(worker)
            print(f"It is open at {address}.", flush=True)
            happen(options, address, products, book, [server, worker])
            good = check(products, book)
            good = check_others(book, opened_at, turns, imports.outputs()) and good
            if options.keep:
                keep_open(address)
    except ProcessFailed as failure:
        print(f"\n{failure}", file=sys.stderr)
        return False
    return ended_in_order([server, worker]) and good


def wait_for_executor(process: PythonProcess) -> None:
    """Wait until the executor has its lease; tasks that are due earlier would be late through no fault of its own."""
    end = time.monotonic() + STARTING
    while not Executor.objects.filter(pid=process.process.pid, alive=True).exists():
        process.check()
        if time.monotonic() > end:
            raise ProcessFailed(f"{process.name} did not come up:\n{process.last_lines()}")
        time.sleep(0.1)


def happen(
    options: Namespace, address: str, products: Sequence[int], book: Book, processes: Sequence[PythonProcess]
) -> None:
    """Play until all stories have ended and no task is left, or the last wait is over."""
    driver = Driver(address, all_stories(book, products, options.orders, options.seed), BROWSERS)
    progress = Progress(len(products) + options.orders)
    driver.start()
    end = None
    while end is None or (time.monotonic() < end and open_tasks(book)):
        for process in processes:
            process.check()
        show(progress, products, book)
        time.sleep(GLANCE)
        if end is None and driver.finished:
            end = time.monotonic() + LAST_WAIT
    show(progress, products, book)
    progress.end()
    book.problems.extend(driver.problems)


def show(progress: Progress, products: Sequence[int], book: Book) -> None:
    ended = Promotion.objects.filter(product__in=products).exclude(ended_at=None).count()
    orders = Order.objects.filter(product__in=products)
    closed = orders.exclude(state=Order.State.AWAITING_PAYMENT).count()
    begun = f"of {len(book.promotions)} promotions {ended} ended"
    progress.show(ended + closed, f"{begun}, of {len(book.orders)} orders {closed} closed")


def check(products: Sequence[int], book: Book) -> bool:
    promotions = Promotion.objects.filter(product__in=products)
    orders = Order.objects.filter(product__in=products).prefetch_related("reminders")
    rows = Rows(book, list(promotions), list(orders), reminder_every())
    print_events(book)
    print_lateness(rows)
    good = print_checks(rows)
    return print_check("no page failed, no answer was unexpected", book.problems) and good


def check_others(book: Book, opened_at: datetime, turns: Mapping[str, int], imports: Sequence[str]) -> bool:
    """Check what is not about single promotions and orders."""
    found = {
        report_problems: report_problems(opened_at),
        import_problems: import_problems(imports),
        gateway_problems: gateway_problems(book, turns),
    }
    results = [print_check(check.__doc__ or "", list(problems)) for check, problems in found.items()]
    return all(results)


def keep_open(address: str) -> None:
    print(f"\nThe shop stays open at {address} until Ctrl-C.", flush=True)
    try:
        signal.pause()
    except KeyboardInterrupt:
        print()


def ended_in_order(processes: Sequence[PythonProcess]) -> bool:
    codes = [(process.name, process.exit_code) for process in processes]
    problems = [f"{name}: exit code {code}" for name, code in codes if code != 0]
    return print_check("web server and executor ended in order on SIGTERM", problems)
