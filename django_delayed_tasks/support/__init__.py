"""What every floor may use and no caller imports."""
