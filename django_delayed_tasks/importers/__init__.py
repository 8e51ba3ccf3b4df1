"""Moving to this package from another library: an app of its own, which a project installs while it moves.

It imports public names of the package only, and no other folder imports it. Each library of which ``importtasks`` moves
the rows has a module of its name here, with its ``rows`` and its ``move_of``.
"""
