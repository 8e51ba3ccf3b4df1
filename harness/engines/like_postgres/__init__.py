"""A PostgreSQL server that goes by another name, and lacks what distributed databases lack that speak like it."""
