"""The tool's own settings: which place wins, and what is refused."""

from __future__ import annotations

import getpass
import os
import pwd
from pathlib import Path

import pytest

from clusterctl import config
from clusterctl.cli import main
from clusterctl.errors import ConfigError
from clusterctl.inventory import load
from clusterctl.launch.base import TOKEN_VARIABLE
from clusterctl.transport.ssh.config import CONFIG_VARIABLE
from clusterctl.transport.ssh.target import KNOWN_HOSTS_VARIABLE
from clusterctl.transport.sudo import PASSWORD_VARIABLE
from clusterctl.workloads.shared_gpu import SHARE_GPUS


@pytest.fixture
def settings(tmp_path, monkeypatch):
    """A function that writes the configuration file; no variable is set."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for setting in config.SETTINGS:
        monkeypatch.delenv(setting.variable, raising=False)

    def write(text):
        (tmp_path / "clusterctl").mkdir(exist_ok=True)
        (tmp_path / "clusterctl/config.yaml").write_text(text)

    return write


def test_flag_then_environment_then_file_then_default(settings, monkeypatch):
    assert config.resolve(config.FANOUT) == config.Chosen(64, "default")
    settings("fanout: 7\n")
    assert config.resolve(config.FANOUT).value == 7
    monkeypatch.setenv("CLUSTERCTL_FANOUT", "8")
    assert config.resolve(config.FANOUT) == config.Chosen(8, "$CLUSTERCTL_FANOUT")
    assert config.resolve(config.FANOUT, 9) == config.Chosen(9, "flag")


def test_every_variable_that_is_read_is_known():
    names = (load.VARIABLE, KNOWN_HOSTS_VARIABLE, CONFIG_VARIABLE, PASSWORD_VARIABLE, "CLUSTERCTL_RUNS")
    assert {one.name for one in config.VARIABLES} == set(names)
    assert config.unknown_variables((*names, TOKEN_VARIABLE, SHARE_GPUS, "HOME")) == {}


def test_a_mistyped_variable_is_a_warning_with_the_nearest_name(settings, monkeypatch, capsys):
    monkeypatch.setenv("CLUSTERCTL_FANOUTT", "3")
    monkeypatch.setenv("CLUSTERCTL_COLOUR_OF_MOON", "3")
    for words, warned in ((["render", "ssh-config"], True), (["-q", "render", "ssh-config"], False)):
        main.main(words)
        said = capsys.readouterr().err
        assert ("CLUSTERCTL_FANOUTT is ignored: did you mean CLUSTERCTL_FANOUT?" in said) is warned
        assert ("CLUSTERCTL_COLOUR_OF_MOON is ignored: unknown variable" in said) is warned


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["runs", "export", "--format", "xml"], "'xml' is not one of 'json', 'csv'"),
        (["check", "--fanout", "x"], "expected a whole number, not 'x'"),
        (["check", "--fanout", "0"], "expected 1 or more, not '0'"),
        (["bench", "--timeout", "soon"], "expected a number, not 'soon'"),
        (["up", "--port", "65536"], "expected 65535 or less, not '65536'"),
    ],
)
def test_a_rejected_option_names_value_and_expectation(words, said, capsys):
    assert main.main(words) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert not any(leak in shown for leak in ("Value error", "Input should", "unable to parse"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fanout: x\n", "but a whole number was expected"),
        ("fanout: true\n", "but a whole number was expected"),
        ("fanout: 3.7\n", "but a whole number was expected"),
        ("fanout: [1]\n", "but a whole number was expected"),
        ("fanout: 0\n", "must be above zero"),
        ("apply_timeout_s: .nan\n", "but a number was expected"),
        ("apply_timeout_s: .inf\n", "but a number was expected"),
        ("apply_timeout_s: later\n", "but a number was expected"),
        ("fan_out: 3\n", "unknown settings: fan_out"),
        ("- fanout\n", "config.yaml: expected lines of the form 'SETTING: VALUE', not a list"),
        ("fanout 7\n", "config.yaml: expected lines of the form 'SETTING: VALUE', not 'fanout 7'"),
        ("fan_out: 3\n1: 2\n", "unknown settings: 1, fan_out"),
        ("fanout: 2024-99-99\n", "cannot be read as YAML"),
    ],
)
def test_nonsense_is_refused(settings, text, said):
    settings(text)
    with pytest.raises(ConfigError, match=said):
        for setting in config.SETTINGS:
            config.resolve(setting)


def test_a_user_without_a_name_and_a_home_is_served(monkeypatch):
    """As in a container that runs under any number: nothing asks in vain for a home."""

    def unknown(number):
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    for name in ("HOME", "LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "to be put back")
        monkeypatch.delenv(name)
    with pytest.raises(RuntimeError):
        Path.home()
    assert main.main(["--version"]) == 0
    assert getpass.getuser() == str(os.getuid())
    assert config.config_path() == Path("/.config/clusterctl/config.yaml")


def test_a_home_into_which_nobody_may_look_has_no_settings(monkeypatch, tmp_path):
    """As HOME=/root in a container that runs as another user; to root, only a name too long is out of reach."""
    monkeypatch.setenv("HOME", str(tmp_path / ("x" * 300)))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    assert config.resolve(config.FANOUT) == config.Chosen(64, "default")
