"""Migrations of the tables that are the server's own."""
