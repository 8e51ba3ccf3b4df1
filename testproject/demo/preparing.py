"""What must be there before the shop opens."""

import io
import os
import sys
from pathlib import Path

import django
from django.core.management import call_command

from testproject.demo.processes import FOLDER

DATABASE = FOLDER / "demo.sqlite3"
ADMIN = "admin"
REMINDER_SECONDS = 2.0
REPORT_TIMES = "*/5 * * * * *"
"""Every five seconds is a night."""


def prepare(products: int, seed: int) -> list[int]:
    """A database with products and an administrator; the primary keys of the products.

    Without DATABASE_URL it is a fresh SQLite file. A database that was given keeps what it has.
    """
    choose_database()
    django.setup()
    call_command("migrate", verbosity=0)
    add_administrator()
    return add_products(products, seed)


def choose_database() -> None:
    """Sets the environment of this process and of those that it will start."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "testproject.settings"
    os.environ["SHOP_REMINDER_SECONDS"] = str(REMINDER_SECONDS)
    os.environ["SHOP_REPORT_TIMES"] = REPORT_TIMES
    if not os.environ.get("DATABASE_URL"):
        for suffix in ("", "-wal", "-shm"):
            Path(f"{DATABASE}{suffix}").unlink(missing_ok=True)
        os.environ["DATABASE_URL"] = f"sqlite:///{DATABASE}"


def add_administrator() -> None:
    from django.contrib.auth.models import User

    if not User.objects.filter(username=ADMIN).exists():
        User.objects.create_superuser(ADMIN, "admin@example.org", ADMIN)


def add_products(count: int, seed: int) -> list[int]:
    from testproject.shop.models import Product

    call_command("stock_shop", products=count, seed=seed, stdout=io.StringIO())
    return sorted(Product.objects.order_by("-pk").values_list("pk", flat=True)[:count])


def where_to_look() -> str:
    """Return a text on how to open the shop and its admin afterwards."""
    manage = f"{os.path.relpath(sys.executable)} {os.path.relpath(FOLDER / 'manage.py')}"
    url = os.environ["DATABASE_URL"]
    shown = url if url.startswith("sqlite:") else "… (as for this run)"
    return (
        "To continue with the shop, start both on this database, each in a terminal of its own:\n"
        f"  DATABASE_URL={shown} {manage} runserver\n"
        f"  DATABASE_URL={shown} {manage} starttask --reload\n"
        f"and open http://127.0.0.1:8000/ (its admin is at /admin/: user {ADMIN}, password {ADMIN})."
    )
