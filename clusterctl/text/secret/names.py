"""Recognize names (of variables, options, keys of files, parameters of URLs) whose values are secret."""

from __future__ import annotations

import re

# HF_TOKEN, AWS_SECRET_ACCESS_KEY, PGPASSWORD, WANDB_API_KEY, REGISTRY_AUTH, SSHPASS, GPG_PASSPHRASE.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSW|PASSPHRASE|_PASS$|SSHPASS$|_PWD$|CREDENTIAL|AUTH|KEY$", re.IGNORECASE
)
# Short names match only as a whole word: BYPASS and module.sig_enforce are not secret.
_SHORT = re.compile(
    r"(?i)(?:^|[._-])(?:(?:root|db|pg)?pass|pw|pwd|rootpw|bindpw|psk|sig|signature|proxy[_-]?user)$"
)
# Names that resemble those of secrets but hold settings, whose values verdicts depend on.
_SETTINGS = re.compile(
    r"(?i)(?:auth(?:entication|orization[_-]plugins|orizedkeys\w{0,40}|or|ors|ority)|tokenizers?(?:_\w{1,40})?"
    r"|(?:pub|public|host|sort|primary|foreign|map|any|hot|signed)[_-]?key|gpgkey|keyring|ssh_?auth_?sock"
    # The path of a file with a secret is not the secret; partition keys of InfiniBand are public.
    r"|[_-](?:file|path|dir)|(?:^|[._-])[plr][_-]?key"
    # Counts of a language model's tokens: max_tokens, tokens_per_batch.
    r"|(?:^|[._-])(?:max|min|num|total|new|batch)[._-](?:\w{1,40}[._-])?tokens?"
    r"|(?:^|[._-])tokens[._-](?:per|in)[._-]\w{1,40})$"
)


def is_secret_name(name: str) -> bool:
    """Return whether a name marks its value as secret: ``HF_TOKEN``, ``--api-key``, ``X-Amz-Signature``."""
    plain = name.replace("-", "_")
    named = _SECRET.search(plain) is not None or _SHORT.search(name) is not None
    return named and _SETTINGS.search(name) is None
