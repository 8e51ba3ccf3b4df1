"""The pictures of the admin in the documentation, taken of pages with a shop's tasks by a real browser."""
