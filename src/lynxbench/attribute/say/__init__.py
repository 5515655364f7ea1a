"""The top floor: a verdict in words, with its evidence, the detail for views and the export for Perfetto."""
