"""Triggers in the admin: their next times, and their form fields."""
