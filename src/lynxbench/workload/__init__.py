"""What to ask: model shapes and weights, length distributions, bundled texts."""
