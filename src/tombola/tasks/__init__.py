"""Tasks: which data, which labels, which metrics, which recipe; and how text becomes batches."""
