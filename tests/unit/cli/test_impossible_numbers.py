"""Numbers on a command line that a program can read and nothing can be done with."""

from __future__ import annotations

import pytest

from clusterctl.cli import main
from clusterctl.cli.bench.request import parse_size


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
        (["bench", "-e", "0.3K"], "'0.3K' is not a size"),
        (["bench", "-e", "64KX"], "'64KX' is not a size"),
        (["bench", "-e", "1T"], "'1T' is not a size"),
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
            "--bucket-cap-mb must be a number from 0.1 to 1048576, not 'inf'",
        ),
    ],
)
def test_they_are_refused_before_anything_is_contacted(words, said, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main.main(words) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("8", 8), ("8B", 8), ("64K", 65536), ("64k", 65536), ("64KB", 65536), ("64KiB", 65536), ("64 KiB", 65536),
        ("1M", 1 << 20), ("1MB", 1 << 20), ("1.5MiB", 3 << 19), ("2GiB", 2 << 30), (" 1g ", 1 << 30),
    ],
)  # fmt: skip
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size
