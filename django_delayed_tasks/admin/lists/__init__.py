"""What the lists of the admin share: base classes, columns, filters, counts."""
