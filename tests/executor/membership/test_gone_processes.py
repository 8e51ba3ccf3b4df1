"""Which processes are known to be gone."""

import os
import subprocess
import sys

import pytest

from django_delayed_tasks.executor.membership.lease import is_gone, machine

pytestmark = pytest.mark.per_database


def ended() -> int:
    """The number of a process that has ended and was waited for."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def test_an_ended_process_of_this_machine_is_gone() -> None:
    assert is_gone(machine(), ended())


def test_a_process_that_no_parent_has_waited_for_is_gone() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""], stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    assert is_gone(machine(), process.pid)
    process.wait()
    process.stdout.close()


def test_a_live_one_is_not() -> None:
    assert not is_gone(machine(), os.getppid())


def test_of_another_machine_nothing_is_known() -> None:
    assert not is_gone("elsewhere", ended())
    assert not is_gone(machine() + "x", os.getpid())


def test_a_number_that_is_ours_now_belonged_to_another_process() -> None:
    assert is_gone(machine(), os.getpid())
