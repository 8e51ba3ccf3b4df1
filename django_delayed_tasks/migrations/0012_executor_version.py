from django.db import migrations

import django_delayed_tasks.fields


class Migration(migrations.Migration):
    dependencies = [("django_delayed_tasks", "0011_statistics")]

    operations = [
        migrations.AddField(
            model_name="executor",
            name="version",
            field=django_delayed_tasks.fields.ExactCharField(max_length=50, null=True, verbose_name="version"),
        ),
        migrations.AlterModelOptions(
            name="pausedqueue",
            options={"verbose_name": "paused queue", "verbose_name_plural": "queues"},
        ),
    ]
