"""The rows that a cluster must pass before it is accepted: what they measure, how they are judged, how they are run."""
