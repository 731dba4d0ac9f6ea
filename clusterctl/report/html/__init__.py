"""A run, or several side by side, as one self-contained HTML page: no script, nothing fetched."""
