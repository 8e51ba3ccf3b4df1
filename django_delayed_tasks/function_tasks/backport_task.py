"""The classes of tasks, results and errors of the package ``django_tasks``, where pickle finds them."""

from django_delayed_tasks.function_tasks.families import BACKPORT, Family
from django_delayed_tasks.function_tasks.task_class import (
    error_class_of,
    purged_class_of,
    result_class_of,
    task_class_of,
)

DelayedTask = task_class_of(Family(BACKPORT), __name__)
StoredResult = result_class_of(Family(BACKPORT), __name__)
PurgedResult = purged_class_of(StoredResult, __name__)
StoredError = error_class_of(Family(BACKPORT), __name__)
