from django.db import models


class Entry(models.Model):
    """An entry of the feed. A unique number cannot be read twice."""

    number = models.IntegerField(unique=True)
    reader = models.CharField(max_length=20)
