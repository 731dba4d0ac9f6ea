"""What vendors' hardware, drivers and repositories are like, as data with a source for each row."""
