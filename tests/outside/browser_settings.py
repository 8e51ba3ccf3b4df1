"""Settings of the web server that the browser visits: the languages, and a strict Content-Security-Policy."""

from tests.settings import *  # noqa: F403
from tests.settings import MIDDLEWARE

MIDDLEWARE = [
    MIDDLEWARE[0],
    "django.middleware.locale.LocaleMiddleware",
    *MIDDLEWARE[1:],
    "tests.outside.strict_policy.strict_policy",
]
TASK_HANDLERS = ["tests.outside.browser_handlers.Fetch", "tests.outside.browser_handlers.Charge"]
