"""What the shop does with leases."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.management import call_command

from django_delayed_tasks.leases import mutex
from testproject.shop import services
from testproject.shop.errors import ShopError
from testproject.shop.models import Order, Product
from testproject.shop.services import payments
from tests.shop.helpers import place_order

pytestmark = pytest.mark.django_db(transaction=True, available_apps=None)

LINES = [f"Lamp {number};{number}.50" for number in range(1, 251)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "stock.csv"
    path.write_text("\n".join(LINES))
    return path


def test_stock_import(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):
        call_command("import_stock", str(file))
    assert capsys.readouterr().out.splitlines() == ["250 lines imported."] * 2
    assert Product.objects.filter(name="Lamp 7", price="7.50").count() == 1
    assert Product.objects.count() == 250


def test_one_import_at_a_time(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with mutex("shop.stock-import"):
        call_command("import_stock", str(file))
    assert capsys.readouterr().out.startswith("Another import is running: ")
    assert not Product.objects.exists()


def test_an_import_that_ended_early_is_continued() -> None:
    def breaking() -> Iterator[str]:
        yield from LINES[:150]
        raise OSError("the file server is away")

    with pytest.raises(OSError, match="away"):
        services.import_stock("stock.csv", breaking())
    assert services.import_stock("stock.csv", LINES) == 150
    assert Product.objects.count() == 250


def test_payment_takes_a_gateway() -> None:
    order = place_order(Product.objects.create(name="Lamp", price=5))
    assert services.pay_through_gateway(order.pk).state == Order.State.PAID
    assert [row.name for row in payments.GATEWAYS.resources()] == ["north", "south"]
    with pytest.raises(ShopError, match="paid already"):
        services.pay_through_gateway(order.pk)


def test_no_gateway_is_free(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payments, "PATIENCE", 0)
    services.open_gateways()
    order = place_order(Product.objects.create(name="Lamp", price=5))
    with payments.free_gateway(), payments.free_gateway(), pytest.raises(ShopError, match="Please try again"):
        services.pay_through_gateway(order.pk)
    order.refresh_from_db()
    assert order.is_open
