"""Does a ticket win? Criteria, summaries and significance: pure functions on lists of scores."""
