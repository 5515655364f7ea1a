"""From evidence to decisions: pure functions over results; what is not known is said, never guessed."""
