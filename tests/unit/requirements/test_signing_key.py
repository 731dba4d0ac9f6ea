"""A repository key is kept only if its fingerprint is the expected one: run for real, with gpg."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from clusterctl.requirements import signing_key

ONE_FINGERPRINT = "C6F1AF9F5D78FEB9EC4700F848E5D7B203A2C1A3"
TWO_FINGERPRINT = "837AEA9F03ACBF7BEB9DBC5F85F01249D98C2803"
ONE = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawFJBhYJKwYBBAHaRw8BAQdAQH8hTJIZXm0mgRF3d0INamHvu3IKYEF1sl3C
L35Jnhu0DHRlc3Qga2V5IG9uZYiQBBMWCAA4FiEExvGvn114/rnsRwD4SOXXsgOi
waMFAmsBSQYCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQSOXXsgOiwaNk
jgEAunXV6//Y6QVaRUyikieQHdZ41g3LvvHacF51juWk+RMA+wSEwDFlD0TQDzGP
eF2Jv9LfNcgZPk4x1B04iHJvDdQG
=h/0Z
-----END PGP PUBLIC KEY BLOCK-----
"""
TWO = """\
-----BEGIN PGP PUBLIC KEY BLOCK-----

mDMEawFJBhYJKwYBBAHaRw8BAQdAHNBmtrtNAXXUPWMWO3Y+xo3AM/NqKtnvi9od
2LGNO1O0DHRlc3Qga2V5IHR3b4iQBBMWCAA4FiEEg3rqnwOsv3vrnbxfhfASSdmM
KAMFAmsBSQYCGwMFCwkIBwIGFQoJCAsCBBYCAwECHgECF4AACgkQhfASSdmMKAPq
gAEAhlUvRBZasqKS7AoIJDUaJNfgPBUrNF4GuIJz+tJIvSkA/0/6sq2+mm0zylvY
VBeS1RSu8Q1aQsczJ2QCIGf48moL
=LA42
-----END PGP PUBLIC KEY BLOCK-----
"""


@pytest.fixture(autouse=True)
def _tools(tier_unavailable):
    missing = [tool for tool in ("gpg", "curl", "awk") if shutil.which(tool) is None]
    if missing:
        tier_unavailable(f"{', '.join(missing)} is missing")


def _run(argv):
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def _fetch(tmp_path, served, fingerprint):
    source = tmp_path / "served.pub"
    source.write_text(served)
    path = tmp_path / "keyrings" / "key.asc"
    path.parent.mkdir()
    return signing_key.fetch("a repository", f"file://{source}", fingerprint, str(path)), path


def test_the_expected_key_is_kept_and_undone(tmp_path):
    step, path = _fetch(tmp_path, ONE, ONE_FINGERPRINT)
    assert _run(step.guard).returncode != 0
    done = _run(step.argv)
    assert (done.returncode, done.stderr) == (0, "")
    assert path.read_text() == ONE
    assert path.stat().st_mode & 0o777 == 0o644
    assert _run(step.guard).returncode == 0
    assert _run(step.argv).returncode == 0
    assert _run(step.undo).returncode == 0
    assert not list(path.parent.iterdir())


@pytest.mark.parametrize(
    "served", [TWO, ONE + TWO, "<html>not found</html>", ""], ids=["other", "both", "page", "empty"]
)
def test_any_other_key_is_thrown_away(tmp_path, served):
    step, path = _fetch(tmp_path, served, ONE_FINGERPRINT)
    done = _run(step.argv)
    assert done.returncode != 0
    assert ONE_FINGERPRINT in done.stderr
    assert not list(path.parent.iterdir())


def test_a_key_that_is_there_and_is_another_is_replaced(tmp_path):
    step, path = _fetch(tmp_path, TWO, TWO_FINGERPRINT)
    path.write_text(ONE)
    assert _run(step.guard).returncode != 0
    assert _run(step.argv).returncode == 0
    assert path.read_text() == TWO


def test_an_address_that_cannot_be_fetched_leaves_nothing(tmp_path):
    step, path = _fetch(tmp_path, ONE, ONE_FINGERPRINT)
    (tmp_path / "served.pub").unlink()
    assert _run(step.argv).returncode != 0
    assert not list(path.parent.iterdir())
