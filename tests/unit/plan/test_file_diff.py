"""Diffs of files in a plan: what changes is seen, a secret is not, and no node can make one long or slow."""

from __future__ import annotations

import base64

from clusterctl.apply.plan.file_diff import LINES, Present, after, diff, shown
from clusterctl.apply.present import parse
from clusterctl.requirements.steps import WriteBlock, WriteFile


def test_a_changed_line_stands_between_its_neighbours():
    old = "".join(f"line{i}\n" for i in range(9))
    assert diff("/etc/a", old, old.replace("line4", "new")) == (
        "@@ -4,3 +4,3 @@",
        "  line3",
        "- line4",
        "+ new",
        "  line5",
    )


def test_a_new_file_is_its_lines():
    assert shown(WriteFile("d", "/etc/a", "one\ntwo\n"), Present(exists=False)) == ("+ one", "+ two")
    assert shown(WriteFile("d", "/etc/a", "one\ntwo\n"), None) == ("+ one", "+ two")


def test_a_file_of_unknown_text_is_replaced_by_the_new_lines():
    step = WriteFile("d", "/etc/a", "one\n")
    assert shown(step, Present(True, None, 0o644, 70_000)) == ("replaces 70000 bytes:", "+ one")


def test_a_long_diff_is_cut_with_a_count():
    old = "\n".join(f"old{i}" for i in range(40)) + "\n"
    found = diff("/etc/a", old, "new\n")
    assert len(found) == LINES + 1
    assert found[-1] == "... 26 more lines (1 +, 25 -)"
    assert diff("/etc/a", "", "x\n" * (LINES + 1)) == ("+ x",) * (LINES + 1), "one line is not worth a count"


def test_secrets_are_stars_and_a_new_one_is_a_change():
    old, new = "A=1\nHF_TOKEN=hf_abcdefgh\n", "A=1\nHF_TOKEN=hf_zyxwvuts\n"
    found = diff("/etc/a", old, new)
    assert found == ("@@ -1,2 +1,2 @@", "  A=1", "- HF_TOKEN=***********", "+ HF_TOKEN=***********")
    old = '{"proxies": {"default": {"httpProxy": "http://u:secretword@p:1"}}, "x": {"password": "mine"}}\n'
    found = "\n".join(diff("/etc/docker/daemon.json", old, old.replace('"x"', '"y"')))
    assert "secretword" not in found and "mine" not in found
    assert "- " in found and "+ " in found


def test_a_private_key_is_masked_over_all_its_lines():
    body = base64.b64encode(bytes(range(96))).decode()
    key = (
        f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body[:64]}\n{body[64:]}\n-----END OPENSSH PRIVATE KEY-----\n"
    )
    found = "\n".join(shown(WriteFile("d", "/etc/k", "x\n"), Present(True, key, 0o600, len(key))))
    assert body[:64] not in found and body[64:] not in found and "***" in found


def test_texts_that_differ_only_in_their_end_say_so():
    assert diff("/etc/a", "a", "a\n") == ("only white space or masked secrets differ",)
    assert diff("/etc/a", "a\n", "a\n") == ()


def test_a_file_made_to_be_slow_is_not():
    found = diff("/etc/a", "\n" * 60_000, "a\n\n" * 20_000)
    assert len(found) == LINES + 1


def test_a_block_replaces_the_one_that_is_there_or_follows_the_text():
    step = WriteBlock("d", "/etc/a", "mesh", "new")
    block = "# BEGIN clusterctl mesh\nnew\n# END clusterctl mesh\n"
    there = "mine\n# BEGIN clusterctl mesh\nold\n# END clusterctl mesh\nyours\n"
    assert after(step, Present(True, there)) == f"mine\n{block}yours\n"
    assert after(step, Present(True, "mine")) == f"mine\n{block}"
    assert after(step, Present(exists=False)) == block
    assert shown(step, Present(True, there)) == ("@@ -2,3 +2,3 @@", "  # BEGIN clusterctl mesh", "- old", "+ new",
                                                 "  # END clusterctl mesh")  # fmt: skip


def test_what_a_node_answers_of_its_files():
    text = base64.b64encode(b"one\n").decode()
    answer = f"@file 640 4 {text}\n@absent\n@other\n@file 644 99999 -\n@file 644 0 =\n@file 644 2 /wA=\n@file x 1 x\n"
    found = parse(f"a banner\n{answer}", ("/a", "/b", "/c", "/d", "/e", "/f", "/g"))
    assert found == {
        "/a": Present(True, "one\n", 0o640, 4),
        "/b": Present(exists=False),
        "/d": Present(True, None, 0o644, 99999),
        "/e": Present(True, "", 0o644, 0),
        "/f": Present(True, None, 0o644, 2),
    }
    assert parse("@absent\n", ("/a", "/b")) == {}, "an answer that was cut off"
