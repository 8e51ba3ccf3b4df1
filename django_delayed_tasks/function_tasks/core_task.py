"""The class of tasks of ``django.tasks``, where pickle finds it."""

from django_delayed_tasks.function_tasks.families import CORE, Family
from django_delayed_tasks.function_tasks.task_class import task_class_of

DelayedTask = task_class_of(Family(CORE), __name__)
