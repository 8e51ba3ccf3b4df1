"""The admin of tasks: list, page, forms, actions."""
