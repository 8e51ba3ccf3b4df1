"""Moving what another library still has to do: one module for each library, with its ``rows`` and its ``move_of``."""
