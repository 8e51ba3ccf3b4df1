"""A middleware that forbids whatever is not a file of the site itself."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

POLICY = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"


def strict_policy(get_response: Callable[[HttpRequest], HttpResponse]) -> Callable[[HttpRequest], HttpResponse]:
    def answer(request: HttpRequest) -> HttpResponse:
        response = get_response(request)
        response["Content-Security-Policy"] = f"{POLICY}; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
        return response

    return answer
