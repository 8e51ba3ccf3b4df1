"""The parts of SQL statements: tables, fences, transactions, and what differs between databases."""
