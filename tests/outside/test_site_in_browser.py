"""Every page of the site, and of the shop, fits a screen and a phone, and shows all its pictures."""

import shutil
from pathlib import Path

import pytest
from django.test import Client
from django.urls import reverse

from harness import ROOT
from testproject.shop.models import Product
from tests.outside.fitting import problems
from tests.shop.conftest import _as_in_the_shop, product
from tests.shop.helpers import place_order, start_promotion

__all__ = ["_as_in_the_shop", "product"]


def test_every_page_fits_and_has_its_pictures(site: Path) -> None:
    pages = sorted(page for page in site.rglob("*.html") if page.name != "blank.html")
    assert len(pages) > 100
    assert problems(site, pages) == {}


def test_a_page_that_is_too_wide_or_lacks_a_picture_is_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    code = '<div class="highlight-python"><pre style="width: 9px; overflow: auto">import this</pre></div>'
    page.write_text(f'<!doctype html><div style="width: 500px">wide</div><img src="missing.png">{code}')
    [(at_screen, cut, too_wide, at_phone)] = problems(tmp_path, [page]).values()
    assert at_screen.startswith("no picture at 1280: http://127.0.0.1:")
    assert cut == "code is cut at 1280: import this"
    assert too_wide == "508 pixels wide at 390"
    assert at_phone.startswith("no picture at 390")


@pytest.mark.django_db
@pytest.mark.urls("testproject.urls")
def test_every_page_of_the_shop_fits(product: Product, client: Client, tmp_path: Path) -> None:
    shutil.copytree(ROOT / "testproject/shop/static", tmp_path / "static")
    promotion, order = start_promotion(product), place_order(product)
    own = {name: reverse(f"shop:{name}", args=[product.pk]) for name in ("start-promotion", "place-order")}
    lists = {name: reverse(f"shop:{name}") for name in ("products", "promotions", "orders", "tasks")}
    for name, address in {
        **own,
        **lists,
        "order": order.get_absolute_url(),
        "end": promotion.get_absolute_url(),
    }.items():
        (tmp_path / f"{name}.html").write_bytes(client.get(address).content)
    pages = sorted(tmp_path.glob("*.html"))
    assert len(pages) == 8
    assert problems(tmp_path, pages) == {}
