"""The rows in the database: every statement that reads or writes them.

Every function takes the database alias as an argument; none reads it from settings.
"""
