"""``help``: the help of each command, and its page for the terminal."""
