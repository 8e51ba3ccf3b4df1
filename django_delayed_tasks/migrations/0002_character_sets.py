from django.db import migrations

from django_delayed_tasks.store.sql.charsets import text_tables


def use_utf8mb4(apps, schema_editor):
    """MariaDB and MySQL: where the database's default is another character set, our text columns have that one.

    A table whose columns have utf8mb4 already, as nearly always, is not touched. The table's own default is changed
    too, for columns that later migrations add.
    """
    if schema_editor.connection.vendor != "mysql":
        return
    ours = [model for model in apps.get_models() if model._meta.app_label == "django_delayed_tasks"]
    for table in text_tables(schema_editor.connection, ours):
        if table.is_wrong:
            schema_editor.execute(table.mended)


class Migration(migrations.Migration):

    dependencies = [
        ('django_delayed_tasks', '0001_initial'),
    ]

    operations = [
        # Back: nothing. The tables go with the first migration.
        migrations.RunPython(use_utf8mb4, migrations.RunPython.noop, atomic=False),
    ]
