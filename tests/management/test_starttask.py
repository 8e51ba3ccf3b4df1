"""``starttask`` that cannot start says why in one line."""

from collections.abc import Iterator
from typing import Any

import pytest
from django.core.checks import CheckMessage, Tags
from django.core.checks.registry import registry
from django.core.management import CommandError, call_command
from django.db import InterfaceError, OperationalError
from django.test import override_settings

from django_delayed_tasks.management.commands import starttask
from tests.handlers.conftest import MakePackage, make_package

__all__ = ["make_package"]

pytestmark = pytest.mark.django_db(transaction=True, available_apps=None)  # checks of other apps need these


@pytest.fixture(params=[OperationalError(2013, "Lost connection"), InterfaceError("connection is closed")], ids=repr)
def _lost_in_a_check(request: pytest.FixtureRequest) -> Iterator[None]:
    def check(**_: Any) -> list[CheckMessage]:
        raise request.param

    registry.register(check, Tags.database)
    yield
    registry.registered_checks.remove(check)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_lost_in_a_check")
def test_when_its_connection_is_lost_in_its_checks() -> None:
    with pytest.raises(CommandError, match=r"database 'default' cannot be reached: .*(Lost connection|is closed)"):
        call_command("starttask", "--drain", verbosity=0, skip_checks=False)


def test_the_banner_says_why_there_is_no_handler(make_package: MakePackage) -> None:
    packages = [make_package({"task_handlers": ""}), make_package({})]
    with override_settings(INSTALLED_APPS=["django_delayed_tasks"]):
        assert starttask._no_handlers().startswith("none: no installed app has a module task_handlers, ")
    with override_settings(INSTALLED_APPS=["django_delayed_tasks", *packages]):
        assert starttask._no_handlers().startswith(f"none: {packages[0]}.task_handlers registers no handler, ")
