"""Actions on rows that a page showed: they ask first, work in portions, are fenced by versions, and are logged."""
