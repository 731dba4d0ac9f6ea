"""Results and verdicts as tables and documents for people and scripts."""
