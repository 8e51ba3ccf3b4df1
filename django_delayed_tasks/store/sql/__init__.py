"""What a statement is made of: tables, fences, transactions, and what differs between databases."""
