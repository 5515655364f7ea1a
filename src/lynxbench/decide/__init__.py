"""From evidence to decisions, claims and the procurement pack; what is not known is said, never guessed."""
