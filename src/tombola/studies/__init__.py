"""Studies: a recipe in, a graph of steps out, and from their results the tables and figures of the papers."""
