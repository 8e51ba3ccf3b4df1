from django.db import migrations, router

import django_delayed_tasks.fields

TABLES = ('task', 'taskrun', 'success')


def use_row_format_of_long_indexes(apps, schema_editor):
    """MariaDB and MySQL: a column of an index has 767 bytes at most in the row formats COMPACT and REDUNDANT.

    Only old servers, or a setting, make tables with these. Any other table is not touched.
    """
    connection = schema_editor.connection
    if connection.vendor != "mysql":
        return
    ours = [apps.get_model("django_delayed_tasks", name) for name in TABLES]
    for model in (model for model in ours if router.allow_migrate_model(connection.alias, model)):
        table = model._meta.db_table
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT ROW_FORMAT FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
                [table],
            )
            [row_format] = cursor.fetchone()
        if row_format.upper() in ("COMPACT", "REDUNDANT"):
            schema_editor.execute(f"ALTER TABLE `{table}` ROW_FORMAT = DYNAMIC")


class LongerNumber(migrations.AlterField):
    """SQLite has no lengths; there Django would copy the table, and ids would be used again."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)


class Migration(migrations.Migration):

    dependencies = [
        ('django_delayed_tasks', '0006_utf8mb4'),
    ]

    operations = [
        migrations.RunPython(use_row_format_of_long_indexes, migrations.RunPython.noop, atomic=False),
        *(
            LongerNumber(
                model_name=model,
                name='biz_num',
                field=django_delayed_tasks.fields.ExactCharField(max_length=255, verbose_name='number'),
            )
            for model in TABLES
        ),
    ]
