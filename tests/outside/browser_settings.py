"""Settings of the web server that the browser visits: the languages, and a strict Content-Security-Policy.

The app comes before the admin, so that the admin's index has the banner, too.
"""

from tests.settings import *  # noqa: F403
from tests.settings import INSTALLED_APPS, MIDDLEWARE

APP = "django_delayed_tasks"
INSTALLED_APPS = [APP, *(app for app in INSTALLED_APPS if app != APP)]

MIDDLEWARE = [
    MIDDLEWARE[0],
    "django.middleware.locale.LocaleMiddleware",
    *MIDDLEWARE[1:],
    "tests.outside.strict_policy.strict_policy",
]
TASK_HANDLERS = ["tests.outside.browser_handlers.Fetch", "tests.outside.browser_handlers.Charge"]
