"""Numbers on a command line that a program can read and nothing can be done with."""

from __future__ import annotations

import pytest

from clusterctl.cli import main


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["bench", "--timeout", "inf"],
            "--timeout must be a positive number of seconds, at most a year, not inf",
        ),
        (["bench", "--timeout", "nan"], "--timeout"),
        (["bench", "--timeout", "1e9"], "at most a year, not 1e+09"),
        (["exec", "--timeout", "inf", "--", "true"], "--timeout must be a positive number"),
        (["bootstrap", "--node-timeout", "inf"], "--node-timeout must be a positive number"),
        (["bench", "-e", "²"], "'²' is not a size"),
        (["bench", "-e", "9" * 5000], "is not a size"),
        (["bench", "-b", "2G", "-e", "1G"], "--min-bytes (2G) is larger than --max-bytes (1G)"),
        (["bench", "--model", "resnet50", "--scaling", "1,²"], "is not a list of ranks"),
        (["bench", "--model", "resnet50", "--scaling", "1," + "9" * 5000], "is not a list of ranks"),
        (
            ["bench", "--model", "resnet50", "--learning-rate", "nan"],
            "--learning-rate must be a positive number, not nan",
        ),
        (
            ["bench", "--model", "resnet50", "--learning-rate", "-1"],
            "--learning-rate must be a positive number, not -1",
        ),
        (
            ["bench", "--model", "resnet50", "--bucket-cap-mb", "inf"],
            "--bucket-cap-mb must be a positive number, not inf",
        ),
    ],
)
def test_they_are_refused_before_anything_is_contacted(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(words) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
