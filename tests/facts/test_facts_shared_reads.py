"""Files that all sections read by one grep come to the sections that declare them, and to no other."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from clusterctl.facts import shared_reads
from clusterctl.facts.base import Fragment, ReadStatus, Section, Sections, links, path_line
from clusterctl.facts.model.host import ConfigLine
from clusterctl.facts.subjects.limits import config_lines

CHOSEN = (
    Fragment("one", files=("/proc/a", "/proc/both"), needs="true", missing="there is no one"),
    Fragment("two", "echo own", files=("/sys/cpu[0-9]*/x", "/proc/both")),
    Fragment(
        "pci",
        files=("/sys/bus/pci/devices/*/class",),
        links=("/sys/bus/pci/devices/*", "/sys/bus/pci/devices/*/driver"),
        folder="/sys/bus/pci/devices/",
    ),
    Fragment("other", "echo other"),
)
TEXT = """\
/proc/a:first: with a colon
/proc/a:/and/a:path
/proc/both:shared
/sys/cpu0/x:zero
/sys/cpu12/x:twelve
/sys/cpux/x:no number
/sys/bus/pci/devices/0000:00:01.0/class:0x060400
/proc/stranger:of nobody
"""
LINKS = """\
lrwxrwxrwx 1 root root 0 Nov 21 03:35 /sys/bus/pci/devices/0000:00:01.0 -> ../../../devices/pci0000:00/0000:00:01.0
lrwxrwxrwx 1 root root 0 Nov 21 03:35 /sys/bus/pci/devices/0000:00:01.0/driver -> ../../../bus/pci/drivers/pcieport
drwxr-xr-x 2 root root 0 Nov 21 03:35 /sys/bus/pci/devices
"""


def shared(text: str = TEXT, status: int | None = 0, error: str = "", **own: Section) -> Sections:
    sections = Sections(own)
    sections[shared_reads.FILES] = Section(shared_reads.FILES, text, status, error)
    sections[shared_reads.LINKS] = Section(shared_reads.LINKS, LINKS)
    shared_reads.distribute(sections, CHOSEN)
    return sections


def test_every_line_comes_to_its_sections_and_what_a_section_says_itself_stays() -> None:
    sections = shared(two=Section("two", "own\n"), other=Section("other", "other\n"))
    assert sections["one"].text == "/proc/a:first: with a colon\n/proc/a:/and/a:path\n/proc/both:shared\n"
    assert sections["two"].text == "/proc/both:shared\n/sys/cpu0/x:zero\n/sys/cpu12/x:twelve\nown\n"
    assert sections["other"].text == "other\n"
    assert set(sections) == {"one", "two", "pci", "other"}


def test_the_folder_is_taken_off_paths_and_links_and_colons_of_pci_devices_stay() -> None:
    text = shared()["pci"].text
    assert text.startswith("0000:00:01.0/class:0x060400\n")
    assert links(text) == {
        "0000:00:01.0": "../../../devices/pci0000:00/0000:00:01.0",
        "0000:00:01.0/driver": "../../../bus/pci/drivers/pcieport",
    }


def test_comments_stay_on_the_node_and_an_empty_line_may_be_a_value(
    shell: tuple[str, ...], tmp_path: Path
) -> None:
    config, value = tmp_path / "config", tmp_path / "value"
    config.write_text("# said of it\n  ; and more\n\n key = 1 # why\n")
    value.write_text("\n")
    (reads,) = shared_reads.fragments((Fragment("x", files=(str(config), str(value), f"{tmp_path}/none")),))
    done = subprocess.run(
        (*shell, "-c", f"n() {{ :; }}\n{reads.script}"),
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == f"{config}:\n{config}: key = 1 # why\n{value}:\n"
    assert done.stderr == ""
    section = Section("config", done.stdout)
    assert config_lines(section, str(tmp_path)) == (ConfigLine(str(config), "key = 1 # why"),)


def test_a_section_that_is_absent_or_failed_on_the_node_stays_so() -> None:
    sections = shared(one=Section("one", "", 127, "there is no one"), two=Section("two", "x", 3, "bad"))
    assert sections["one"].status is ReadStatus.ABSENT and sections["one"].detail == "there is no one"
    assert sections["two"] == Section("two", "x", 3, "bad")


def test_a_section_whose_own_words_never_came_is_not_made_up_from_files() -> None:
    assert "two" not in shared() and shared()["two"].exit_status is None


@pytest.mark.parametrize(
    ("status", "meaning"), [(127, ReadStatus.ABSENT), (137, ReadStatus.FAILED), (None, ReadStatus.FAILED)]
)
def test_a_grep_that_failed_fails_every_section_that_needs_it(
    status: int | None, meaning: ReadStatus
) -> None:
    sections = shared("", status, "sh: grep: not found", two=Section("two", "own\n"))
    assert sections["one"].status is meaning and sections["two"].status is meaning
    assert "grep: not found" in sections["one"].error


def test_without_the_shared_sections_nothing_is_made_up() -> None:
    sections = Sections(other=Section("other", "x"))
    shared_reads.distribute(sections, CHOSEN)
    assert set(sections) == {"other"}


def test_a_file_that_two_sections_want_is_read_once() -> None:
    files, found = shared_reads.fragments(CHOSEN)
    assert files.script.split().count("/proc/both") == 1
    assert found.script.startswith("ls -ld -- ")
    assert shared_reads.fragments(CHOSEN[3:]) == ()


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("/a/b:c:d", "/a/b"),
        ("0000:00:01.0/class:0x06", "0000:00:01.0/class"),
        ("mlx5_0/ports/1/gids/0:fe80::1", "mlx5_0/ports/1/gids/0"),
        ("no path: here", None),
        ("/ends/in/slash/:x", None),
    ],
)
def test_a_line_is_split_at_the_end_of_its_files_name(line: str, path: str | None) -> None:
    found = path_line(line)
    assert (found and found[0]) == path
    assert found is None or f"{found[0]}:{found[1]}" == line
