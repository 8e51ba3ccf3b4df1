"""A database engine for clusters: MariaDB Galera with several hosts, of which any that is ready will do."""
