"""Django's engines, made to be those of other databases."""
