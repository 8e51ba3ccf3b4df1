from django.db import migrations, models

import django_delayed_tasks.fields


class AddColumn(migrations.AddField):
    """On SQLite too, only a column is added: Django would copy the table, and ids would be used again."""

    def database_forwards(self, app_label, schema_editor, from_state, to_state):
        if schema_editor.connection.vendor != "sqlite":
            super().database_forwards(app_label, schema_editor, from_state, to_state)
            return
        model = to_state.apps.get_model(app_label, self.model_name)
        if not self.allow_migrate_model(schema_editor.connection.alias, model):
            return
        column = model._meta.get_field(self.name)
        quoted = [schema_editor.quote_name(name) for name in (model._meta.db_table, column.column)]
        schema_editor.execute(
            "ALTER TABLE {} ADD COLUMN {} varchar({}) NOT NULL DEFAULT ''".format(*quoted, column.max_length)
        )


class Migration(migrations.Migration):

    dependencies = [
        ('django_delayed_tasks', '0013_trace'),
    ]

    operations = [
        AddColumn(
            model_name='task',
            name='lane',
            field=django_delayed_tasks.fields.LaneField(db_default='', default='', editable=False, max_length=84, verbose_name='lane'),
        ),
        migrations.RemoveIndex(
            model_name='task',
            name='ddt_task_claim',
        ),
        migrations.AddIndex(
            model_name='task',
            index=models.Index(fields=['status', 'lane', 'queue', 'priority', 'claim_at', 'id'], name='ddt_task_claim'),
        ),
    ]
