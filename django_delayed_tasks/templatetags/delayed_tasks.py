"""``{% delayed_tasks_problems %}``: what is wrong, as a banner for pages of the admin."""

import logging
from typing import Any

from django import template
from django.db import Error
from django.urls import NoReverseMatch, reverse

from django_delayed_tasks import stats
from django_delayed_tasks.conf import settings

register = template.Library()
logger = logging.getLogger(__name__)

MOST = 3
"""The most problems that a banner names."""


@register.inclusion_tag("admin/django_delayed_tasks/overview/banner.html", takes_context=True)
def delayed_tasks_problems(context: dict[str, Any]) -> dict[str, Any]:
    """Return what the banner shows: nothing to users who may not view the overview."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not user.has_perm("django_delayed_tasks.view_overview"):
        return {"problems": []}
    try:
        found = stats.problems(using=settings.DATABASE)
        address = reverse(
            "admin:django_delayed_tasks_overview_changelist", current_app=getattr(request, "current_app", None)
        )
    except NoReverseMatch:  # another admin site, without this page
        return {"problems": []}
    except Error:  # the page itself must not fail for it, as before the migration
        logger.exception("what is wrong cannot be read")
        return {"problems": []}
    return {"problems": found[:MOST], "more": max(0, len(found) - MOST), "address": address}
