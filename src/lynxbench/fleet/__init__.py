"""The same contract on many machines. The only room that knows Ray; without Ray everything else works."""
