"""The setting ``DELAYED_TASKS``."""

import re
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from django_delayed_tasks import conf
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import InvalidSetting

DEFAULTS = {
    "DATABASE": "default",
    "THREADS": 8,
    "ASYNC_CONCURRENCY": 100,
    "POLL_INTERVAL": 0.2,
    "HEARTBEAT": 3.0,
    "LEASE": 10.0,
    "CLAIM": "auto",
    "BATCH_SIZE": 300,
    "MAX_RESCUES": 3,
    "SHUTDOWN_TIMEOUT": 30.0,
    "KEEP_HISTORY": timedelta(days=7),
    "ONCE_RETENTION": None,
    "MAX_BIZ_EXT_BYTES": 65_536,
    "ALLOW_UNKNOWN_CODES": False,
    "FUNCTION_MODULES": (),
    "MAX_LOST_THREADS": 8,
    "NOTIFY": True,
    "MODE": "executor",
    "REDACT": (),
    "MIDDLEWARE": (),
}
DURATIONS = ["POLL_INTERVAL", "HEARTBEAT", "LEASE", "SHUTDOWN_TIMEOUT"]
KEEPINGS = ["KEEP_HISTORY", "ONCE_RETENTION"]
NUMBERS = ["THREADS", "ASYNC_CONCURRENCY", "BATCH_SIZE", "MAX_RESCUES", "MAX_BIZ_EXT_BYTES", "MAX_LOST_THREADS"]

keepings = pytest.mark.parametrize("key", KEEPINGS)


def read_with(**given: Any) -> dict[str, Any]:
    """Return all settings as they are under ``DELAYED_TASKS = given``."""
    with override_settings(DELAYED_TASKS=given):
        return {key: getattr(settings, key) for key in DEFAULTS}


def test_defaults() -> None:
    assert read_with() == DEFAULTS
    assert dir(settings) == sorted(DEFAULTS)


def test_every_setting_is_explained() -> None:
    page = Path(__file__).resolve().parent.parent / "docs/reference/settings.md"
    assert re.findall(r"^\| `([A-Z_]+)` \|", page.read_text(), re.MULTILINE) == list(DEFAULTS)


def test_without_the_setting_the_defaults_hold() -> None:
    from django.conf import settings as django_settings

    with override_settings(DELAYED_TASKS={"THREADS": 2}):
        del django_settings.DELAYED_TASKS  # type: ignore[misc]
        conf._current.cache_clear()
        assert settings.THREADS == 8
    conf._current.cache_clear()


def test_given_values_are_merged_over_the_defaults() -> None:
    assert read_with(THREADS=2, DATABASE="tasks") == {**DEFAULTS, "THREADS": 2, "DATABASE": "tasks"}


def test_override_settings_is_honoured_and_undone() -> None:
    outside = settings.THREADS
    with override_settings(DELAYED_TASKS={"THREADS": 3}):
        assert settings.THREADS == 3
        with override_settings(DELAYED_TASKS={"THREADS": 4}):
            assert settings.THREADS == 4
        assert settings.THREADS == 3
    assert outside == settings.THREADS


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize(("value", "seconds"), [(40, 40.0), (32.5, 32.5), (timedelta(minutes=1), 60.0)])
def test_durations_are_seconds_or_timedeltas(key: str, value: Any, seconds: float) -> None:
    read = read_with(**{"HEARTBEAT": 10, "LEASE": 200, key: value})[key]
    assert (read, type(read)) == (seconds, float)


@pytest.mark.parametrize("key", DURATIONS)
@pytest.mark.parametrize(
    "value",
    [-1, -0.1, timedelta(-1), 366 * 86400 + 1, timedelta.max, float("nan"), float("inf"), "5", None, True],
)
def test_other_durations_are_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"'{key}'"):
        read_with(**{key: value})


def test_only_the_shutdown_may_take_no_time() -> None:
    assert read_with(SHUTDOWN_TIMEOUT=0)["SHUTDOWN_TIMEOUT"] == 0
    for key in ("POLL_INTERVAL", "HEARTBEAT", "LEASE"):
        with pytest.raises(InvalidSetting, match=f"'{key}'"):
            read_with(**{key: 0})


@pytest.mark.parametrize("key", NUMBERS)
@pytest.mark.parametrize("value", [-1, 1.5, 2.0, "8", None, True, 2**31])
def test_wrong_numbers_are_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"'{key}'.*expected an int from"):
        read_with(**{key: value})


@pytest.mark.parametrize("key", ["THREADS", "BATCH_SIZE", "MAX_LOST_THREADS"])
def test_some_numbers_are_at_least_one(key: str) -> None:
    assert read_with(**{key: 1})[key] == 1
    with pytest.raises(InvalidSetting, match=f"'{key}'"):
        read_with(**{key: 0})


@pytest.mark.parametrize("key", ["MAX_RESCUES", "MAX_BIZ_EXT_BYTES"])
def test_some_numbers_may_be_zero(key: str) -> None:
    assert read_with(**{key: 0})[key] == 0


@pytest.mark.parametrize("value", [None, timedelta(microseconds=1), timedelta(days=36_500)])
@keepings
def test_what_is_kept_so_long(key: str, value: timedelta | None) -> None:
    assert read_with(**{key: value})[key] == value


@pytest.mark.parametrize("value", [7, 0, "7 days", timedelta(0), -timedelta(days=1), timedelta.max])
@keepings
def test_what_is_kept_has_no_bare_number(key: str, value: Any) -> None:
    """Seven, meant as days, would throw the history away after seven seconds."""
    with pytest.raises(InvalidSetting, match=rf"'{key}'.*timedelta\(days=7\)"):
        read_with(**{key: value})


@pytest.mark.parametrize("value", ["auto", "skip_locked", "compare_and_set"])
def test_claim_strategies(value: str) -> None:
    assert read_with(CLAIM=value)["CLAIM"] == value


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("CLAIM", "fast"),
        ("CLAIM", None),
        ("CLAIM", ["auto"]),
        ("ALLOW_UNKNOWN_CODES", 1),
        ("ALLOW_UNKNOWN_CODES", "yes"),
        ("DATABASE", ""),
        ("DATABASE", None),
    ],
)
def test_other_wrong_values_are_refused(key: str, value: Any) -> None:
    with pytest.raises(InvalidSetting, match=f"'{key}'.*expected"):
        read_with(**{key: value})


@pytest.mark.parametrize(
    ("heartbeat", "lease", "accepted"), [(5, 10.001, True), (5, 10, False), (5, 4, False), (8, 15, False)]
)
def test_a_lease_is_longer_than_two_heartbeats(heartbeat: float, lease: float, accepted: bool) -> None:
    _, problems = conf.read({"HEARTBEAT": heartbeat, "LEASE": lease})
    assert [problem.kind for problem in problems] == ([] if accepted else ["lease"])


def test_an_unknown_key_is_refused_whichever_is_read() -> None:
    with pytest.raises(InvalidSetting, match=r"DELAYED_TASKS\['THREDS'\]: unknown key \(Did you mean THREADS\?\)"):
        read_with(THREDS=4)


def test_all_problems_are_named_at_once() -> None:
    with pytest.raises(InvalidSetting) as raised:
        read_with(THREDS=4, CLAIM="fast", LEASE=0)
    assert [f"'{key}'" in str(raised.value) for key in ("THREDS", "CLAIM", "LEASE")] == [True] * 3


@pytest.mark.parametrize("given", [None, [], "THREADS", 7])
def test_it_must_be_a_dict(given: Any) -> None:
    expected = r"^DELAYED_TASKS: expected a dict"
    with override_settings(DELAYED_TASKS=given), pytest.raises(InvalidSetting, match=expected):
        settings.THREADS  # noqa: B018


def test_wrong_settings_do_not_stick() -> None:
    with override_settings(DELAYED_TASKS={"THREADS": 0}), pytest.raises(InvalidSetting):
        settings.THREADS  # noqa: B018
    assert settings.THREADS >= 1


def test_no_other_attribute() -> None:
    with pytest.raises(AttributeError, match="THREDS"):
        getattr(settings, "THREDS")  # noqa: B009 (mypy would refuse the plain form)


JUNK = st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.timedeltas() | st.lists(st.none())


@given(st.dictionaries(st.sampled_from(list(DEFAULTS)) | st.text(), JUNK))
def test_whatever_is_given_every_value_is_usable_or_reported(given: dict[str, Any]) -> None:
    values, problems = conf.read(given)
    reported = {problem.key for problem in problems}
    assert set(given) - set(DEFAULTS) <= reported
    for key in DEFAULTS:
        value = getattr(values, key)
        assert type(value) in ((timedelta, type(None)) if key in KEEPINGS else (type(DEFAULTS[key]),))
        assert key in reported or key not in given or value in alike(given[key])


def alike(value: Any) -> list[Any]:
    """The value, and what stands for it: seconds for a timedelta, a tuple for a list."""
    return [
        value,
        *([value.total_seconds()] if isinstance(value, timedelta) else []),
        *([tuple(value)] if isinstance(value, list) else []),
    ]


@pytest.mark.parametrize("names", [["Password", "TOKEN"], ("token", "password"), {"token", "password", "PassWord"}])
def test_names_of_keys_are_compared_whatever_their_case(names: Any) -> None:
    assert read_with(REDACT=names)["REDACT"] == ("password", "token")


@pytest.mark.parametrize("names", ["password", None, 7, {"password": True}, [""], [7], [None], [["password"]]])
def test_names_of_keys_are_a_list_of_texts(names: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"REDACT.*expected"):
        read_with(REDACT=names)


@pytest.mark.parametrize("names", ["jobs", ["jobs."], [""], ["a-b"], [None], ["jobs/../x"], {"jobs"}])
def test_modules_of_functions_are_a_list_of_dotted_names(names: Any) -> None:
    assert read_with(FUNCTION_MODULES=["jobs", "acme.jobs"])["FUNCTION_MODULES"] == ("jobs", "acme.jobs")
    with pytest.raises(InvalidSetting, match=r"FUNCTION_MODULES.*expected a list of dotted names"):
        read_with(FUNCTION_MODULES=names)


@given(st.timedeltas() | st.integers(-(10**12), 10**12) | st.floats(allow_nan=False, allow_infinity=False))
def test_as_seconds(duration: Any) -> None:
    seconds = conf.as_seconds(duration)
    assert type(seconds) is float
    assert seconds == (duration.total_seconds() if isinstance(duration, timedelta) else duration)
