from django.db import models


class Order(models.Model):
    number = models.CharField(max_length=20, unique=True)
    paid = models.BooleanField(default=False)
    cancellations = models.IntegerField(default=0)


class OldTask(models.Model):
    """The table that this project made for itself, before it had django-delayed-tasks."""

    biz_code = models.CharField(max_length=50)
    biz_num = models.CharField(max_length=100)
    biz_ext = models.TextField(default="")
    when = models.DateTimeField()
    status = models.CharField(max_length=10, default="waiting")  # then "running", "done"; or "moved"

    class Meta:
        db_table = "t_task"
