from django.db import migrations, models

import django_delayed_tasks.fields


class Migration(migrations.Migration):

    dependencies = [
        ('django_delayed_tasks', '0007_longer_numbers'),
    ]

    operations = [
        migrations.AddField(
            model_name='executor',
            name='exclude_queues',
            field=django_delayed_tasks.fields.AnyJSONField(null=True, verbose_name='excluded queues'),
        ),
        migrations.AddField(
            model_name='executor',
            name='status',
            field=models.SmallIntegerField(choices=[(0, 'running'), (1, 'stopping'), (2, 'stopped'), (3, 'crashed')], null=True, verbose_name='status'),
        ),
        migrations.AddIndex(
            model_name='executor',
            index=models.Index(fields=['alive', 'expires_at'], name='ddt_executor_lease'),
        ),
    ]
