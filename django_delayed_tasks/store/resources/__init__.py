"""Rows that are leased: named resources, slots, rate tokens, and who waits for them."""
