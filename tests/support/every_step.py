"""One step of every kind, with the key that it has in journals when the requirement ``r`` needs it."""

from __future__ import annotations

from clusterctl.requirements.steps import (
    Command,
    EnableUnit,
    InstallPackages,
    LoadModule,
    MakeVenv,
    PutTree,
    Reboot,
    RestartUnit,
    SetRegister,
    Step,
    WriteBlock,
    WriteFile,
    WriteValue,
)

# Undo compares the keys of runs by different versions, so a kind keeps its keys.
KEYS: dict[Step, str] = {
    WriteFile("d", "/etc/a", "content\n", 0o600): "e3603e33f2cec68cb87c3ca2",
    WriteBlock("d", "/etc/a", "mesh", "x"): "1d63354ccd4ba4f67b600ea4",
    WriteValue("d", "/sys/a", "1", "0"): "77c0b08f7c3ae925191d7439",
    SetRegister("d", "0000:00:01.0", "ECAP_ACS+6.w", "0000", "001d"): "44e9052c21f63bb35f87d9f7",
    Command("d", ("make", "-C", "/usr/src/x"), None, ("test", "-e", "/x"), 5.0): "af852c9693b0317535d92835",
    LoadModule("d", "m"): "1c48ff5f0dc858f8cb14af72",
    EnableUnit("d", "u.service", False): "5332d3f13ac661ce8347fef6",
    RestartUnit("d", "u.service"): "5fb3ac652468307c98427c7f",
    InstallPackages("d", "dnf", ("a", "b")): "b67a3632f0d2bbef480b27b6",
    PutTree("d", "/src", "/usr/src/x"): "82d07358879b5ecb04dc0c88",
    MakeVenv("d", "/opt/x", "/usr/bin/python3", "made torch", "", ("torch",)): "daeaa3e032e1086eaf95ffb8",
    Reboot("d"): "9b9fd1975a1e542427b70ab0",
}
EVERY_KIND = tuple(KEYS)
