"""Raw answers of a fleet kept in a folder, without secrets, so that a check can be replayed without nodes."""
