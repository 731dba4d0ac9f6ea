"""The face: verbs, options, exit codes. Nothing heavy is imported before a verb runs."""
