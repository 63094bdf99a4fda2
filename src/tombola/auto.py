"""Importing this registers tombola's model classes with transformers: Auto classes, ``pipeline`` and ``Trainer`` then
load physically smaller models like any others (DESIGN 5, Deployed model)."""

from tombola.models.deployed import register

register()
