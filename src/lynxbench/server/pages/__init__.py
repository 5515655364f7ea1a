"""Pages for people: each is a function from values to markup."""
