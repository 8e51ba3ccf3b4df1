import django_delayed_tasks.fields
from django.db import migrations


class Migration(migrations.Migration):

    dependencies = [
        ('django_delayed_tasks', '0012_executor_version'),
    ]

    operations = [
        migrations.AddField(
            model_name='task',
            name='trace',
            field=django_delayed_tasks.fields.ExactCharField(editable=False, max_length=55, null=True, verbose_name='trace'),
        ),
        migrations.AddField(
            model_name='task',
            name='deferred_trace',
            field=django_delayed_tasks.fields.ExactCharField(editable=False, max_length=55, null=True),
        ),
    ]
