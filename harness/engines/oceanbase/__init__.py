"""OceanBase and seekdb, which speak MySQL's protocol and count their versions in another way."""
