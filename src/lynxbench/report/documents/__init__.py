"""One file a kind of report: its values to blocks."""
