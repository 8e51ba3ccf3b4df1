"""The class of tasks of the package ``django_tasks``, where pickle finds it."""

from django_delayed_tasks.function_tasks.families import BACKPORT, Family
from django_delayed_tasks.function_tasks.task_class import task_class_of

DelayedTask = task_class_of(Family(BACKPORT), __name__)
