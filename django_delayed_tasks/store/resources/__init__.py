"""Rows that are leased: named resources, slots and rate tokens, and the queue of those waiting for them."""
