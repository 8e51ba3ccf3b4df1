from django.db import migrations

from shop.moving import move_tasks


def move(apps, schema_editor):
    move_tasks(apps.get_model("shop", "OldTask").objects)


class Migration(migrations.Migration):
    dependencies = [
        ("shop", "0001_initial"),
        ("django_delayed_tasks", "0002_character_sets"),  # the latest one that is installed
    ]

    operations = [migrations.RunPython(move, migrations.RunPython.noop)]
