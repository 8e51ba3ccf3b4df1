"""What plugs into Django's own extension points."""
