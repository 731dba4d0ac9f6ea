"""Messages at the width of a terminal: whole words, the margin of their line, and commands that can be copied."""

from clusterctl.report.text.wrapping import wrapped_message


def test_words_stay_whole_and_lines_keep_their_margin():
    text = "note: all ranks are on one node\n      hint: is sshd running on gpu01, and on this port?"
    assert wrapped_message(text, 32) == (
        "note: all ranks are on one node\n"
        "      hint: is sshd running on\n"
        "          gpu01, and on this\n"
        "          port?"
    )
    assert wrapped_message(text, 80) == text


def test_a_command_is_not_broken():
    command = "clusterctl bootstrap --resume runs/20261124T103056Z-bootstrap-db34 --label 'a  b'"
    assert wrapped_message(f"hint: to do the remaining steps: {command}", 40) == (
        f"hint: to do the remaining steps:\n    {command}"
    )


def test_a_word_that_is_longer_than_the_terminal_stays_whole():
    assert wrapped_message(f"run folder: /{'x' * 50}", 20) == f"run folder:\n    /{'x' * 50}"
