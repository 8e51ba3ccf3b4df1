"""Actions on rows that a page showed: they ask first, are fenced by versions, and are logged."""
