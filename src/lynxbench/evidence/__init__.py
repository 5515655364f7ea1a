"""What a result rests on: canonical documents, hashed samples, and the checks that they fit together."""
