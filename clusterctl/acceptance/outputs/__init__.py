"""Read what the programs of rows print: one pure parser per program."""
