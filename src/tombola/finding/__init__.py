"""Ways to find tickets: one file per method, named by it; the registry is in ``methods.py``."""
