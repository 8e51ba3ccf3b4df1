"""The overview: what is going on, what comes next, and what is wrong, on one page."""
