"""``"ENGINE": "harness.engines.oceanbase"``: Django's MySQL engine for servers that say they are MySQL 5.7."""

from django.db.backends.mysql import base, features


class DatabaseFeatures(features.DatabaseFeatures):
    minimum_database_version = (5, 7)
    supports_column_check_constraints = True  # without it, migrate fails with Django 5.2


class DatabaseWrapper(base.DatabaseWrapper):
    display_name = "OceanBase"
    features_class = DatabaseFeatures
