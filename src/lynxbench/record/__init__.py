"""Results into the ledger and out of it again: recorded, recalled, listed, compared, exported."""
