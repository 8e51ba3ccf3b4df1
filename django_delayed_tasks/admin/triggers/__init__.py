"""Triggers in the admin: what a trigger will do, and the form fields for it."""
