"""One task's page: adding, changing, cancelling; every write by the store, fenced by the version that was seen."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.http import urlencode
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from django_delayed_tasks import api, store
from django_delayed_tasks.admin import columns, seen
from django_delayed_tasks.admin.forms import AddTaskForm, ChangeTaskForm
from django_delayed_tasks.conf import settings
from django_delayed_tasks.exceptions import TaskExists
from django_delayed_tasks.executor import wakeup
from django_delayed_tasks.models import Task
from django_delayed_tasks.states import CancelResult, TaskStatus
from django_delayed_tasks.store import steering, validation

if TYPE_CHECKING:
    Base = admin.ModelAdmin[Task]
else:
    Base = object
