"""Plug-ins for Django's own extension points."""
