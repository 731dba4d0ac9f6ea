"""What people see of results: one module per command makes a view, which `report` shows in each form."""
