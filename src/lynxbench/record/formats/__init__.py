"""Results of other tools, read as foreign evidence."""
