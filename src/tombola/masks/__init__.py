"""Masks: which prunable weights a ticket keeps, how they are chosen, and how they are written down."""
