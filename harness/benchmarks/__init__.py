"""How fast it is, told as ratios to lean programs in the same run (`make bench`)."""
