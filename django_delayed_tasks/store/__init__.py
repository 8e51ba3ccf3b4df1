"""The rows in the database: every statement that reads or writes them.

Each takes the database alias; none reads it from settings.
"""
