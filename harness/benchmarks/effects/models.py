"""One table."""

from django.db import models


class Effect(models.Model):
    """A record that a task has been done, written in the transaction that settles it."""

    id = models.BigAutoField(primary_key=True)
    biz_num = models.CharField(max_length=100)
    objects: "models.Manager[Effect]" = models.Manager()

    def __str__(self) -> str:
        return self.biz_num
