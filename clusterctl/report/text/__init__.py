"""Results, verdicts and failures as plain text for people."""
