"""A small shop that uses django_delayed_tasks as any project would. Not part of the distribution."""
