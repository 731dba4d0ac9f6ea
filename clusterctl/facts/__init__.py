"""What a node is: one probe in one round trip, and one parser per subject."""
