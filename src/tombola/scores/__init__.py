"""Scores: pure functions that give every prunable weight a number; the lowest are pruned first."""
