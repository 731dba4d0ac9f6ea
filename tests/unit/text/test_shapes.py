"""Secrets are recognised by what they look like, under any name, and what a verdict needs stays."""

from __future__ import annotations

import re
import string
import time

import pytest

from clusterctl.text.secret import scrub, shapes
from clusterctl.text.secret.scrub import Scrubber, names_a_secret, scrubbed

S = "hunter22"
JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0.dozjgNryP4J3jVmNHl0w5N_XgL0n3I9P"

PLANTED = {
    "url userinfo": f"git+https://bob:{S}@git.example/x.git",
    "url token": f"https://{S}{S}@git.example/x.git",
    "url without user": f"redis://:{S}@cache:6379/0",
    "image login": f"bob:{S}@registry.example/team/image:1",
    "image login, port": f"bob:{S}@registry:5000/image",
    "dsn": f"host=db user=bob password={S} port=5432",
    "passwd": f"passwd={S}",
    "pwd in odbc": f"Server=db;Uid=bob;Pwd={S};",
    "secret word": f"client_secret={S}",
    "api key": f"api_key={S}",
    "access key": f"access_key = {S}",
    "azure account key": f"AccountName=x;AccountKey={S}==;EndpointSuffix=core.windows.net",
    "option": f"serve --password {S} --port 8080",
    "option, quoted": f"serve --password '{S} {S}' --port 8080",
    "option, assigned": f"serve --api-token={S}",
    "option, json list": f'["serve", "--secret-key", "{S}"]',
    "single dash": f"keytool -password {S}",
    "sas url": f"https://x.blob.core.windows.net/c/f?sv=2024&sig={S}%3D&se=2026",
    "amz signature": f"https://b.s3.amazonaws.com/k?X-Amz-Signature={S}&X-Amz-Date=20260101T000000Z",
    "amz credential": f"https://b.s3.amazonaws.com/k?X-Amz-Credential={S}%2F20260101%2Fus-east-1",
    "query token": f"https://x/y?token={S}",
    "query key": f"https://maps.example/api?key={S}&v=3",
    "query code": f"https://x/callback?code={S}&state=1",
    "bearer": f"curl -H 'Authorization: Bearer {S}' https://x",
    "basic": "Authorization: Basic Ym9iOmh1bnRlcjIy",
    "basic alone": "header is Basic Ym9iOmh1bnRlcjIy",
    "header": f"curl -H 'X-Vault-Token: {S}' https://x",
    "private header": f'wget --header="Private-Token: {S}" https://x',
    "aws id": "AKIAIOSFODNN7EXAMPLE",
    "aws pair": "AKIAIOSFODNN7EXAMPLE:wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
    "github": "ghp_0123456789abcdefghijABCDEFGHIJ",
    "github, fine": "github_pat_0123456789abcdefghijABCDEFGHIJ_x",
    "slack": "xoxb-0123456789-abcdefghij",
    "slack hook": "https://hooks.slack.com/services/T0123456/B0123456/abcdefghijklmnop",
    "jwt": JWT,
    "huggingface": "hf_abcdefghijklmnopqrstuv",
    "npm": "npm_abcdefghijklmnopqrstuvwxyz0123456789",
    "nvidia": "nvapi-abcdefghijklmnopqrstuvwxyz",
    "google": "AIza" + "a1_-B" * 7,
    "pem": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----",
    "pem, escaped": r"-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END PRIVATE KEY-----",
    "docker login": f"docker login -u bob -p {S} registry.example",
    "mysql": f"mysqldump -ubob -p{S} db",
    "redis": f"redis-cli -h cache -a {S} ping",
    "smbclient": f"smbclient //server/share -U bob%{S}",
    "openssl": f"openssl rsa -in k.pem -passin pass:{S}",
    "sshpass": f"sshpass -p {S} ssh gpu01",
    "curl": f"curl -fsSL -o x --user bob:{S} https://x",
}
# What must not be left of each: the part that is the secret.
LEFT = re.compile(
    r"hunter22|Ym9iOmh1|AKIAIOS|wJalr|ghp_0|github_pat_0|xoxb-0|B0123456|eyJhb|hf_abc|npm_abc|nvapi-a|AIzaa|MIIEvQ"
)

KEPT = (
    "/usr/local/cuda-12.4/lib64:/opt/amazon/efa/lib",
    "nvcr.io/nvidia/pytorch:24.10-py3@sha256:" + "0123456789abcdef" * 4,
    "pytorch:24.10@sha256:" + "0123456789abcdef" * 4,
    "sha256:" + "0123456789abcdef" * 4,
    "GPU-8a4e2f7c-1b3d-4c5e-9f6a-7b8c9d0e1f2a",
    "MIG-8a4e2f7c-1b3d-4c5e-9f6a-7b8c9d0e1f2a",
    "fe80:0000:0000:0000:506b:4b03:00f3:8d2a",
    "GID[0] fe80::506b:4bff:fef3:8d2a, RoCE v2",
    "0000:17:00.0",
    "BOOT_IMAGE=/vmlinuz-6.8 root=UUID=8a4e2f7c-1b3d-4c5e-9f6a-7b8c9d0e1f2a ro intel_iommu=on iommu=pt pci=realloc=off",
    "NCCL_IB_HCA==mlx5_0:1,mlx5_1:1 NCCL_SOCKET_IFNAME=^docker0,lo NCCL_DEBUG_SUBSYS=INIT,NET NCCL_IB_PKEY=0x7fff",
    "UCX_NET_DEVICES=mlx5_0:1 UCX_IB_PKEY=0xffff UCX_TLS=rc,cuda_copy",
    "TOKENIZERS_PARALLELISM=false max_tokens=4096 tokens_per_batch=8192 num_tokens=1",
    "10.0.0.1@tcp:10.0.0.2@tcp:/scratch 10.0.0.3@o2ib:/x",
    "mailto:root@gpu01 git@github.com:owner/repository ssh://git@github.com/owner/repository",
    "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhvc3RzZ29vZGtleWdvb2RrZXlnb29ka2V5Z29v root@gpu01",
    "SHA256:uNiVztksCsDhcc0u9e8BgrJXVGDT0IM7z5D8y6jU4kQ",
    "--tls-key /etc/docker/key.pem --tlskey=/etc/docker/server-key.pem SSL_KEY=/etc/ssl/private/node.key",
    "PASSWORD_FILE=/run/secrets/password SSH_AUTH_SOCK=/tmp/ssh-x/agent.1 GOOGLE_APPLICATION_CREDENTIALS_FILE=/x",
    '{"default-runtime": "nvidia", "tlskey": "/etc/docker/key.pem", "exec-opts": ["native.cgroupdriver=systemd"]}',
    "mpirun -np 16 -H gpu01:8,gpu02:8 -x NCCL_DEBUG=INFO --mca btl ^openib -p 22",
    "docker run -p 8080:80 --user 1000:1000 --name x image serve --port 80",
    "a bearer certificate, basic training, Basic English, bearer authentication",
    "python -m torch.distributed.run --rdzv-endpoint 10.0.0.1:29500 --rdzv-id 4711",
    "user.max_user_namespaces=0 net.ipv4.tcp_rmem = 4096 87380 16777216",
    "tcp://10.0.0.1:29500 env:// file:///shared/rendezvous http://mirror.example:8080/a@b",
)


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_a_secret_is_recognised_by_its_shape(text: str) -> None:
    shown = scrubbed(text)
    assert not LEFT.search(shown), shown
    assert len(shown) == len(text)
    assert scrubbed(shown) == shown
    assert names_a_secret("SETTING", text)


@pytest.mark.parametrize(
    "text", [text for name, text in PLANTED.items() if name not in ("pem", "option, json list")]
)
def test_a_command_hides_what_its_words_hide_together(text: str) -> None:
    words = ["sh", "-c", *re.findall(r"'[^']*'|\"[^\"]*\"|\S+", text)]
    shown = Scrubber().words(words)
    assert not LEFT.search(" ".join(shown)), shown
    assert [*map(len, shown)] == [*map(len, words)]


def test_a_value_behind_an_option_is_a_word_of_its_own() -> None:
    words = ["serve", "--password", "pä_ß", "--name", "é", "--port", "1"]
    assert Scrubber().words(words) == ["serve", "--password", "******", "--name", "é", "--port", "1"]


def test_words_of_a_known_value_keep_their_lengths() -> None:
    assert Scrubber(["hunter 22"]).words(["a", "hunter", "22", "b "]) == ["a", "******", "**", "b "]


@pytest.mark.parametrize("text", KEPT)
def test_what_verdicts_need_stays(text: str) -> None:
    assert scrubbed(text) == text
    assert Scrubber().words(text.split()) == text.split()
    assert not names_a_secret("SETTING", text)


@pytest.mark.parametrize("text", ['{"password": "\ud800x"}', "password=\ud800x", "token=\udcff\ud800é"])
def test_half_a_surrogate_pair_is_hidden_too(text: str) -> None:
    assert scrubbed(text).endswith(("*", '*"}'))
    assert "*" in str(Scrubber().value({"password": "\ud800"}))
    assert Scrubber().words(["--token", "\ud800é", "x"])[2] == "x"


def _patterns() -> list[re.Pattern[str]]:
    found = [v for module in (scrub, shapes) for v in vars(module).values() if isinstance(v, re.Pattern)]
    found += [one.pattern for one in shapes.SHAPES]
    return list(dict.fromkeys([*found, *(one.behind for one in shapes.SHAPES if one.behind is not None)]))


UNITS = (
    *(
        " ",
        "\t",
        "a",
        "A",
        "0",
        "=",
        ":",
        "-",
        "@",
        "/",
        "'",
        '"',
        "\\",
        "a:",
        "a@",
        "a=",
        "a-",
        "a.",
        "--a",
        "-a ",
    ),
    *(
        "=a:a",
        "proxy=a:",
        "iscsi:",
        "iscsi:a:a@",
        "a://a",
        "://",
        '"a":"',
        '\\"a\\":\\"',
        "{a: ",
        ",a",
        "-eyJ",
        ".eyJ",
    ),
    *(
        "eyJaaaaaaaa.",
        "sk-",
        "hf_",
        "gh",
        "AKIA",
        "AKIAIOSFODNN7EXAMPLE ",
        "$1$",
        "bearer ",
        "basic ",
        "basic A",
    ),
    *(
        "authorization: token ",
        "curl ",
        "-u ",
        "-u a",
        "-u a:",
        "crypto ",
        "pw ",
        "machine a login a ",
        "user=",
    ),
    *(
        "docker login ",
        "-p ",
        "mysql ",
        "-p",
        "redis-cli ",
        "-a ",
        "smbclient -U a%",
        "openssl pass:",
        "?code=",
    ),
    *(
        "hooks.slack.com/services/a",
        "sshpass -p ",
        "-H 'a: ",
        "token_",
        "max_tokens_",
        "tokenizer_",
        "tokens_per_",
    ),
    *(
        "-----BEGIN ",
        "PRIVATE KEY",
        "/a:",
        "\\n",
        "authorizedkeys_",
        "auth",
        "x-amz-",
        "--token ",
        "--token '",
    ),
)


@pytest.mark.parametrize("unit", UNITS, ids=repr)
def test_no_line_takes_long(unit: str) -> None:
    line = "x" + unit * (65536 // len(unit)) + "\u20ac"
    slow = {}
    for pattern in _patterns():
        began = time.process_time()
        for _ in pattern.finditer(line):
            pass
        slow[pattern.pattern] = time.process_time() - began
    # A quadratic pattern takes minutes for 64 KiB, a linear one some milliseconds.
    assert max(slow.values()) < 1.0, sorted(slow.items(), key=lambda item: -item[1])[:3]


def test_letters_that_begin_no_secret_stay() -> None:
    assert scrubbed(string.printable) == string.printable
