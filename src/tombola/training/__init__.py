"""Training: one short loop, and everything sparse behind one seam (read loop.py, then sparsity.py)."""
