"""From the record to decisions, claims and the procurement pack."""
