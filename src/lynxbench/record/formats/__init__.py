"""Results of other tools coming in as foreign evidence, and ours going out in other programs' formats."""
