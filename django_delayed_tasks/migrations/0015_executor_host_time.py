from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("django_delayed_tasks", "0014_lanes")]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="host_time",
            field=models.DateTimeField(null=True, verbose_name="clock of the host"),
        ),
    ]
