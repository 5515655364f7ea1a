"""Web pages and an API over the ledger: one place where every team reads the same measurement."""
