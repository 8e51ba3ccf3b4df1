"""``{% delayed_tasks_problems %}``: what is wrong, as a banner on pages of the admin; and ``|ddt_number``.

The page itself reads nothing for the banner: a script fetches it once the page has loaded.
"""

from typing import Any

from django import template
from django.urls import NoReverseMatch, reverse

from django_delayed_tasks.support.durations import number_text
from django_delayed_tasks.support.visible import named

register = template.Library()
register.filter("ddt_number", number_text)
register.filter("named", named)


@register.inclusion_tag("admin/django_delayed_tasks/overview/banner.html", takes_context=True)
def delayed_tasks_problems(context: dict[str, Any]) -> dict[str, Any]:
    """Return the address of the banner; none for users who may not view the overview."""
    request = context.get("request")
    user = getattr(request, "user", None)
    if user is None or not user.has_perm("django_delayed_tasks.view_overview"):
        return {}
    try:
        here = getattr(request, "current_app", None)
        return {"address": reverse("admin:django_delayed_tasks_overview_problems", current_app=here)}
    except NoReverseMatch:  # another admin site, without the overview
        return {}
