"""The versioned JSON API: the same documents as `--json`."""
