"""What many results say together, as evidence: experiments, tunings and fleet runs, recorded and verified."""
