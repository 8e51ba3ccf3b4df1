"""What the shop will do, and what it did."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from django_delayed_tasks import get_runs, get_tasks_by_code
from testproject.shop import codes
from testproject.shop.forms import TaskSearchForm
from testproject.shop.views import INVALID, page_of

NEWEST_RUNS = 20


@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    form = TaskSearchForm(request.GET or None)
    valid = form.is_valid() or not form.is_bound
    code = (form.cleaned_data.get("code") if form.is_bound else None) or None
    number = (form.cleaned_data.get("number") if form.is_bound else None) or None
    context = {
        "form": form,
        "page": page_of(request, get_tasks_by_code(code, number).filter(biz_code__in=codes.ALL)),
        "runs": get_runs(code, number).filter(biz_code__in=codes.ALL)[:NEWEST_RUNS],
    }
    return render(request, "shop/tasks.html", context, status=200 if valid else INVALID)
