"""Parse, call, render, exit: no logic."""
