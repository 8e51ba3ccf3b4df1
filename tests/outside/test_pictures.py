"""django-pictures, unchanged: its task function processes a picture in an executor."""

from tests.newcomer import Newcomer

SETTINGS = """
INSTALLED_APPS += ["django_delayed_tasks", "pictures", "shop"]
MEDIA_ROOT = BASE_DIR / "media"
TASKS = {"default": {"BACKEND": "django_delayed_tasks.backends.tasks.DelayedTasksBackend", "QUEUES": []}}
PICTURES = {
    "BREAKPOINTS": {"s": 100}, "GRID_COLUMNS": 1, "CONTAINER_WIDTH": 100, "FILE_TYPES": ["WEBP"],
    "PIXEL_DENSITIES": [1], "USE_PLACEHOLDERS": False,
}
"""
MODEL = """
from django.db import models
from pictures.models import PictureField

class Photo(models.Model):
    picture = PictureField(upload_to="photos")
"""
ADD = """
import io

from django.core.files.base import ContentFile
from PIL import Image
from shop.models import Photo

content = io.BytesIO()
Image.new("RGB", (300, 200), "red").save(content, "PNG")
photo = Photo()
photo.picture.save("red.png", ContentFile(content.getvalue()))
"""


def test_a_picture_is_processed(newcomer: Newcomer) -> None:
    newcomer.has_a_project(SETTINGS)
    newcomer.append("shop/models.py", MODEL)
    newcomer.append("add.py", ADD)
    newcomer.run("python manage.py makemigrations shop --verbosity 0")
    newcomer.run("python manage.py migrate --verbosity 0")
    newcomer.types("import add")
    media = newcomer.folder / "media"
    assert list(media.rglob("*.webp")) == []
    newcomer.run("python manage.py starttask --drain")
    assert [path.name for path in media.rglob("*.webp")] == ["100w.webp"]
