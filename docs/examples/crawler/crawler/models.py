from django.db import models


class Page(models.Model):
    key = models.CharField(max_length=255, unique=True)
    url = models.TextField()
    title = models.CharField(max_length=200)
