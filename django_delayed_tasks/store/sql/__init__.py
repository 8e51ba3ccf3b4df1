"""What SQL statements are made of: tables, fences, transactions, and what differs between databases."""
