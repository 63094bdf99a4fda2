"""Tables and figures as people and programs read them: terminal, CSV, JSON, Markdown, LaTeX, SVG, PDF, PNG."""
