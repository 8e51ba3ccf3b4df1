"""Claims of tasks whose handlers are limited: together with their permits, in one transaction."""
