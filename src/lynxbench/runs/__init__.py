"""What every order of a run is made of: fresh processes, what their samples come to, proof by intervention."""
