"""Results: their model, the database that stores them, and comparisons between runs and with baselines."""
