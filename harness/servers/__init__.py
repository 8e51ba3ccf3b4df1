"""Real database servers for the tests: found or installed, started on free ports, stopped afterwards.

``python -m harness.servers --databases mariadb,postgres,mysql [--hold] [-- command …]``
"""
