"""Functions decorated with ``@task`` of Django's Tasks framework, or of its backport, as tasks of this store."""
