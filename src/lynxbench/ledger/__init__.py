"""The append-only log: signed entries in SQL, a Merkle tree over them, and the documents they speak of by content."""
