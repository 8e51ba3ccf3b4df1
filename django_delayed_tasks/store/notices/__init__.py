"""What is said after the commit: to executors of this process, and through PostgreSQL to others."""
