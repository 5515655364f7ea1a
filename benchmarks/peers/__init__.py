"""What `load_peers.py` is made of: the server, the cases, and one file for every kind of client."""
