"""Values → terminal, Markdown, JSON and self-contained HTML. Rendering never computes: it only bins for drawing."""
