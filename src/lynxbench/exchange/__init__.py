"""Between a machine and a server: results pushed and pulled, scheduled runs."""
