"""The parts that the admin's lists share: base classes, columns, filters, counts."""
