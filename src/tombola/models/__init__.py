"""Pre-trained models: what they offer to prune, where they come from, and how a ticket's start is built."""
