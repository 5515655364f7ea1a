"""Results into the ledger and out again: recorded, recalled, verified, re-run, compared, exchanged, exported."""
