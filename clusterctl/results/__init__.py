"""What was measured: the result's model and the run that it belongs to."""
