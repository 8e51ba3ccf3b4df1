"""Programs for an interpreter that has the packages from outside: what another library would run of generated rows.

Each makes rows of every kind, asks the other library's own code what it would run and when, moves them by
``importtasks``, asks this package the same, and raises on a difference that the command has not reported.
"""
