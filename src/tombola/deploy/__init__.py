"""From a ticket to a model in use: measured speed, and other runtimes."""
