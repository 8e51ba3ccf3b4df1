"""The classes of tasks, results and errors of ``django.tasks``, where pickle finds them."""

from django_delayed_tasks.function_tasks.families import CORE, Family
from django_delayed_tasks.function_tasks.task_class import (
    error_class_of,
    purged_class_of,
    result_class_of,
    task_class_of,
)

DelayedTask = task_class_of(Family(CORE), __name__)
StoredResult = result_class_of(Family(CORE), __name__)
PurgedResult = purged_class_of(StoredResult, __name__)
StoredError = error_class_of(Family(CORE), __name__)
