"""The changes of the tables, release by release."""
