from datetime import datetime, timezone

from django.db import migrations, models

import django_delayed_tasks.fields

MOMENTS = (
    datetime(1000, 1, 1, tzinfo=timezone.utc),
    datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=timezone.utc),
)


def use_row_format_of_long_indexes(apps, schema_editor):
    """MariaDB and MySQL: a column of an index has 767 bytes at most in the row formats COMPACT and REDUNDANT.

    Tables have these only where a setting of the server says so. Elsewhere nothing is changed.
    """
    if schema_editor.connection.vendor != "mysql":
        return
    with schema_editor.connection.cursor() as cursor:
        cursor.execute("SHOW VARIABLES LIKE 'innodb_default_row_format'")
        if any(row_format.lower() in ("compact", "redundant") for _, row_format in cursor.fetchall()):
            schema_editor.sql_create_table += " ROW_FORMAT = DYNAMIC"


class Migration(migrations.Migration):

    initial = True

    dependencies = []

    operations = [
        migrations.RunPython(use_row_format_of_long_indexes, migrations.RunPython.noop),
        migrations.CreateModel(
            name='Executor',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('name', django_delayed_tasks.fields.ExactCharField(max_length=150, verbose_name='name')),
                ('host', models.CharField(max_length=255, verbose_name='host')),
                ('pid', models.BigIntegerField(verbose_name='pid')),
                ('queues', models.JSONField(null=True, verbose_name='queues')),
                ('codes', models.JSONField(default=list, verbose_name='codes')),
                ('threads', models.IntegerField(verbose_name='threads')),
                ('started_at', models.DateTimeField(verbose_name='started')),
                ('heartbeat_at', models.DateTimeField(verbose_name='heartbeat')),
                ('expires_at', models.DateTimeField(verbose_name='lease until')),
                ('alive', models.BooleanField(null=True, verbose_name='alive')),
                ('exclude_queues', models.JSONField(null=True, verbose_name='excluded queues')),
                ('status', models.SmallIntegerField(choices=[(0, 'running'), (1, 'stopping'), (2, 'stopped'), (3, 'crashed')], null=True, verbose_name='status')),
                ('version', django_delayed_tasks.fields.ExactCharField(max_length=50, null=True, verbose_name='version')),
                ('host_time', models.DateTimeField(null=True, verbose_name='clock of the host')),
            ],
            options={
                'verbose_name': 'executor',
                'verbose_name_plural': 'executors',
                'constraints': [models.UniqueConstraint(fields=('name', 'alive'), name='ddt_executor_name_alive')],
                'indexes': [models.Index(fields=['alive', 'expires_at'], name='ddt_executor_lease')],
            },
        ),
        migrations.CreateModel(
            name='Task',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('biz_code', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='code')),
                ('biz_num', django_delayed_tasks.fields.ExactCharField(max_length=255, verbose_name='number')),
                ('when', models.DateTimeField(db_column='when_time', verbose_name='when')),
                ('biz_ext', models.JSONField(blank=True, null=True, verbose_name='data')),
                ('queue', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='queue')),
                ('priority', models.SmallIntegerField(verbose_name='priority')),
                ('status', models.SmallIntegerField(choices=[(0, 'pending'), (1, 'running'), (2, 'failed'), (3, 'paused')], default=0, editable=False, verbose_name='status')),
                ('claim_at', models.DateTimeField(editable=False, verbose_name='claimable from')),
                ('version', models.BigIntegerField(default=0, editable=False, verbose_name='version')),
                ('attempts', models.IntegerField(default=0, editable=False, verbose_name='attempts')),
                ('rescues', models.IntegerField(default=0, editable=False, verbose_name='rescues')),
                ('executor', models.BigIntegerField(default=0, editable=False, null=True, verbose_name='executor')),
                ('last_error', models.TextField(blank=True, default='', editable=False, verbose_name='last error')),
                ('deferred_when', models.DateTimeField(editable=False, null=True, verbose_name='deferred until')),
                ('deferred_biz_ext', models.JSONField(editable=False, null=True)),
                ('deferred_queue', django_delayed_tasks.fields.ExactCharField(default='', editable=False, max_length=50)),
                ('deferred_priority', models.SmallIntegerField(editable=False, null=True)),
                ('cancel_requested_at', models.DateTimeField(editable=False, null=True, verbose_name='cancel requested')),
                ('create_time', models.DateTimeField(editable=False, verbose_name='created')),
                ('update_time', models.DateTimeField(editable=False, verbose_name='updated')),
                ('progress_at', models.DateTimeField(editable=False, null=True, verbose_name='progress reported')),
                ('progress_fraction', models.FloatField(editable=False, null=True, verbose_name='progress')),
                ('progress_note', models.CharField(editable=False, max_length=200, null=True, verbose_name='progress note')),
                ('by_handler', models.BooleanField(editable=False, null=True, verbose_name='by its handler')),
                ('deferred_expires_at', models.DateTimeField(editable=False, null=True)),
                ('deferred_once', models.BooleanField(editable=False, null=True)),
                ('deferred_trigger_text', models.CharField(editable=False, max_length=500, null=True)),
                ('expires_at', models.DateTimeField(blank=True, null=True, verbose_name='expires')),
                ('once', models.BooleanField(editable=False, null=True, verbose_name='once')),
                ('pause_requested', models.BooleanField(editable=False, null=True, verbose_name='pause requested')),
                ('trigger', models.CharField(blank=True, db_column='trigger_text', default=None, max_length=500, null=True, verbose_name='trigger')),
                ('deferred_keeps_ext', models.BooleanField(editable=False, null=True)),
                ('trace', django_delayed_tasks.fields.ExactCharField(editable=False, max_length=55, null=True, verbose_name='trace')),
                ('deferred_trace', django_delayed_tasks.fields.ExactCharField(editable=False, max_length=55, null=True)),
                ('lane', django_delayed_tasks.fields.LaneField(db_default='', default='', editable=False, max_length=84, verbose_name='lane')),
            ],
            options={
                'verbose_name': 'task',
                'verbose_name_plural': 'tasks',
                'indexes': [models.Index(fields=['status', 'lane', 'queue', 'priority', 'claim_at', 'id'], name='ddt_task_claim')],
                'constraints': [
                    models.UniqueConstraint(fields=('biz_code', 'biz_num'), name='ddt_task_identity'),
                    models.CheckConstraint(condition=models.Q(('claim_at__range', MOMENTS), ('when__range', MOMENTS), models.Q(('deferred_when', None), ('deferred_when__range', MOMENTS), _connector='OR')), name='ddt_task_moments'),
                ],
            },
        ),
        migrations.CreateModel(
            name='TaskRun',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('task_id', models.BigIntegerField(db_index=True, verbose_name='task')),
                ('version', models.BigIntegerField(verbose_name='version')),
                ('biz_code', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='code')),
                ('biz_num', django_delayed_tasks.fields.ExactCharField(max_length=255, verbose_name='number')),
                ('when', models.DateTimeField(db_column='when_time', verbose_name='when')),
                ('attempt', models.IntegerField(verbose_name='attempt')),
                ('outcome', models.SmallIntegerField(choices=[(0, 'done'), (1, 'rescheduled'), (2, 'retried'), (3, 'failed'), (4, 'cancelled'), (5, 'lost'), (6, 'expired')], verbose_name='outcome')),
                ('started', models.DateTimeField(null=True, verbose_name='started')),
                ('finished', models.DateTimeField(verbose_name='finished')),
                ('result', models.JSONField(null=True, verbose_name='result')),
                ('error', models.TextField(blank=True, default='', verbose_name='error')),
                ('executor', models.BigIntegerField(null=True, verbose_name='executor')),
                ('biz_ext', models.JSONField(null=True, verbose_name='data')),
                ('exception', django_delayed_tasks.fields.ExactCharField(max_length=255, null=True, verbose_name='exception')),
            ],
            options={
                'verbose_name': 'run',
                'verbose_name_plural': 'runs',
                'indexes': [models.Index(fields=['biz_code', 'biz_num'], name='ddt_run_identity')],
            },
        ),
        migrations.CreateModel(
            name='Resource',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pool', django_delayed_tasks.fields.ExactCharField(max_length=100, verbose_name='pool')),
                ('name', django_delayed_tasks.fields.ExactCharField(max_length=150, verbose_name='name')),
                ('payload', models.JSONField(blank=True, null=True, verbose_name='payload')),
                ('state', models.JSONField(blank=True, null=True, verbose_name='state')),
                ('enabled', models.BooleanField(default=True, verbose_name='enabled')),
                ('busy_before', models.DateTimeField(verbose_name='busy until')),
                ('version', models.BigIntegerField(verbose_name='version')),
                ('holder', django_delayed_tasks.fields.ExactCharField(blank=True, default='', max_length=64, verbose_name='holder')),
                ('host', models.CharField(blank=True, default='', max_length=255, verbose_name='host')),
                ('pid', models.BigIntegerField(null=True, verbose_name='pid')),
                ('acquired_at', models.DateTimeField(null=True, verbose_name='acquired')),
                ('renewed_at', models.DateTimeField(null=True, verbose_name='renewed')),
                ('task_id', models.BigIntegerField(null=True, verbose_name='task')),
                ('task_version', models.BigIntegerField(null=True, verbose_name='claim')),
            ],
            options={
                'verbose_name': 'resource',
                'verbose_name_plural': 'resources',
                'indexes': [models.Index(fields=['pool', 'enabled', 'busy_before', 'id'], name='ddt_resource_lease')],
                'constraints': [models.UniqueConstraint(fields=('pool', 'name'), name='ddt_resource_identity')],
            },
        ),
        migrations.CreateModel(
            name='Waiter',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('pool', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='pool')),
                ('name', django_delayed_tasks.fields.ExactCharField(blank=True, default='', max_length=150, verbose_name='name')),
                ('expires_at', models.DateTimeField(verbose_name='until')),
            ],
            options={
                'verbose_name': 'waiter',
                'verbose_name_plural': 'waiters',
                'indexes': [models.Index(fields=['pool', 'name', 'id'], name='ddt_waiter_queue')],
            },
        ),
        migrations.CreateModel(
            name='PausedQueue',
            fields=[
                ('queue', django_delayed_tasks.fields.ExactCharField(max_length=50, primary_key=True, serialize=False, verbose_name='queue')),
                ('paused_at', models.DateTimeField(verbose_name='paused')),
            ],
            options={
                'verbose_name': 'paused queue',
                'verbose_name_plural': 'queues',
            },
        ),
        migrations.CreateModel(
            name='Recurrence',
            fields=[
                ('biz_code', django_delayed_tasks.fields.ExactCharField(max_length=50, primary_key=True, serialize=False, verbose_name='code')),
                ('trigger_text', models.CharField(max_length=500, verbose_name='trigger')),
                ('declared_at', models.DateTimeField(verbose_name='declared')),
            ],
            options={
                'verbose_name': 'recurrence',
                'verbose_name_plural': 'recurrences',
            },
        ),
        migrations.CreateModel(
            name='Success',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('biz_code', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='code')),
                ('biz_num', django_delayed_tasks.fields.ExactCharField(max_length=255, verbose_name='number')),
                ('succeeded_at', models.DateTimeField(verbose_name='succeeded')),
            ],
            options={
                'verbose_name': 'success',
                'verbose_name_plural': 'successes',
                'constraints': [models.UniqueConstraint(fields=('biz_code', 'biz_num'), name='ddt_success_identity')],
            },
        ),
        migrations.CreateModel(
            name='Overview',
            fields=[
                ('name', django_delayed_tasks.fields.ExactCharField(max_length=50, primary_key=True, serialize=False, verbose_name='name')),
                ('taken_at', models.DateTimeField(verbose_name='taken')),
                ('data', models.JSONField(verbose_name='data')),
            ],
            options={
                'verbose_name': 'overview',
                'verbose_name_plural': ' Overview',
            },
        ),
        migrations.CreateModel(
            name='Statistic',
            fields=[
                ('id', models.BigAutoField(primary_key=True, serialize=False)),
                ('grain', models.IntegerField(verbose_name='seconds of the period')),
                ('start', models.DateTimeField(verbose_name='start of the period')),
                ('biz_code', django_delayed_tasks.fields.ExactCharField(max_length=50, verbose_name='code')),
                ('outcome', models.SmallIntegerField(choices=[(0, 'done'), (1, 'rescheduled'), (2, 'retried'), (3, 'failed'), (4, 'cancelled'), (5, 'lost'), (6, 'expired')], verbose_name='outcome')),
                ('error', django_delayed_tasks.fields.ExactCharField(blank=True, default='', max_length=120, verbose_name='error')),
                ('runs', models.BigIntegerField(default=0, verbose_name='runs')),
                ('late_sum', models.BigIntegerField(default=0, verbose_name='sum of lateness')),
                ('late_max', models.BigIntegerField(default=0, verbose_name='longest lateness')),
                ('took_sum', models.BigIntegerField(default=0, verbose_name='sum of run time')),
                ('took_max', models.BigIntegerField(default=0, verbose_name='longest run time')),
                *((f'late_{number}', models.BigIntegerField(default=0)) for number in range(13)),
                *((f'took_{number}', models.BigIntegerField(default=0)) for number in range(13)),
            ],
            options={
                'verbose_name': 'statistic',
                'verbose_name_plural': 'statistics',
                'constraints': [models.UniqueConstraint(fields=('grain', 'start', 'biz_code', 'outcome', 'error'), name='ddt_statistic_identity')],
            },
        ),
    ]

