"""What a handler may return, and what is left as it is when it says no more."""

from datetime import timedelta
from typing import get_args

from django_delayed_tasks.outcomes import UNCHANGED, Done, Fail, Outcome, Reschedule, Retry, Unchanged


def test_an_outcome_is_one_of_four() -> None:
    assert get_args(Outcome) == (Done, Reschedule, Retry, Fail)


def test_done_has_no_result_and_keeps_the_data() -> None:
    assert Done().result is None
    assert Done().biz_ext is UNCHANGED


def test_reschedule_keeps_the_data() -> None:
    assert Reschedule(timedelta(hours=1)).biz_ext is UNCHANGED


def test_retry_waits_for_the_back_off_of_the_handler_and_gives_no_reason() -> None:
    assert (Retry().after, Retry().reason) == (None, "")


def test_fail_gives_no_reason() -> None:
    assert Fail().reason == ""


def test_unchanged_is_not_none_and_says_its_name() -> None:
    assert isinstance(UNCHANGED, Unchanged)
    assert repr(UNCHANGED) == "UNCHANGED"
