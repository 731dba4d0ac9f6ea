"""The rows of ``accept``: one module per kind of hardware, each with a tuple ``ROWS``."""
