"""The functions of django.tasks of the benchmarks."""

import asyncio
from typing import TYPE_CHECKING

import django

if TYPE_CHECKING or django.VERSION >= (6, 0):
    from django.tasks import task
else:
    from django_tasks import task


@task
def nothing() -> None:
    """The cost of a run is the machinery's."""


@task
async def wait_a_second() -> None:
    """What a call of another service does most of the time."""
    await asyncio.sleep(1)
