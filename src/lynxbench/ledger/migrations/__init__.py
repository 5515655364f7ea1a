"""Schema versions of the ledger, up and down, for SQLite and PostgreSQL alike."""
