"""What the documentation's site is built with, on top of Sphinx: extensions, listed in ``docs/conf.py``."""
