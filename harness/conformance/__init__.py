"""The test suites of Django's Tasks framework and of its backport, run against this package's backend."""
