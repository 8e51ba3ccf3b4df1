from django.db import models


class Document(models.Model):
    name = models.CharField(max_length=100, unique=True)
    words = models.IntegerField()
    node = models.CharField(max_length=20)
    indexed = models.BooleanField(default=False)
