"""Fixtures of this folder."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client

from django_delayed_tasks import clock
from django_delayed_tasks.handlers import TaskHandler, register_task_handler, registry
from tests.admin.rows import CODE, NOW, OTHER

ClientOf = Callable[..., Client]


class Shop(TaskHandler):
    biz_code = CODE
    queue = "shop"
    priority = 7

    def handle(self, task: Any) -> None:
        """Never called here."""


class Mail(TaskHandler):
    biz_code = OTHER

    def handle(self, task: Any) -> None:
        """Never called here."""


@pytest.fixture(autouse=True)
def two_handlers() -> Iterator[None]:
    """The only handlers are those of CODE and OTHER."""
    with registry.preserved():
        registry.clear()
        register_task_handler(Shop)
        register_task_handler(Mail)
        yield


@pytest.fixture
def frozen() -> Iterator[None]:
    """Every clock shows NOW, the database's included."""
    with clock.frozen_at(NOW):
        yield


@pytest.fixture
def client_of(db: None) -> ClientOf:
    """Makes a client that is logged in with these permissions on tasks, such as "view" and "change"."""

    def make(*permissions: str) -> Client:
        user = User.objects.create_user("clerk", is_staff=True)
        names = [f"{name}_task" for name in permissions]
        user.user_permissions.set(Permission.objects.filter(codename__in=names))
        client = Client()
        client.force_login(user)
        return client

    return make


@pytest.fixture
def boss(db: None) -> Client:
    """A client that may do everything."""
    client = Client()
    client.force_login(User.objects.create_superuser("boss"))
    return client
