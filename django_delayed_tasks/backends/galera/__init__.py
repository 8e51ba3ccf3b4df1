"""A database engine for MariaDB Galera clusters: it connects to any of several hosts that is ready."""
