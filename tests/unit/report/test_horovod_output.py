"""Horovod's lines, by a parser like those that people have: the two regular expressions of its scripts."""

import re

import pytest
from bench_documents import document, point, variant
from bench_requests import bench_requests

from clusterctl.cli.bench import ending
from clusterctl.cli.bench.options import Output
from clusterctl.documents.bench import BenchResult
from clusterctl.errors import UsageError
from clusterctl.report.text import horovod


def request(**options):
    (one,) = bench_requests(**options)
    return one


def result(device):
    points = [point(np, rate, efficiency=1.0) for np, rate in ((1, 819.04), (8, 6469.0))]
    proof = {
        "settings": {"batch_size": 256}, "spread": {"1": 2.04, "8": 3.0},
        "ranks": [{"rank": 0, "host": "a", "pid": 1, "device": device}],
    }  # fmt: skip
    return BenchResult.model_validate(document("r", variant(points=points), benchmark="resnet50", **proof))


def test_the_lines_of_two_points():
    assert horovod.render(result("cuda:0 NVIDIA A100")).splitlines() == [
        "Model: resnet50",
        "Batch size: 256",
        "Number of GPUs: 1",
        "Img/sec per GPU: 819.0 +-2.0",
        "Total img/sec on 1 GPU(s): 819.0 +-2.0",
        "Model: resnet50",
        "Batch size: 256",
        "Number of GPUs: 8",
        "Img/sec per GPU: 808.6 +-3.0",
        "Total img/sec on 8 GPU(s): 6469.0 +-24.0",
    ]


def test_scripts_find_their_figures():
    text = horovod.render(result("cpu"))
    totals = re.findall(r"Total img/sec on (\d+) CPU\(s\): (\d+\.\d) \+-(\d+\.\d)", text)
    assert totals == [("1", "819.0", "2.0"), ("8", "6469.0", "24.0")]
    assert re.findall(r"^Img/sec per CPU: (\S+) \+-(\S+)$", text, re.MULTILINE)[-1] == ("808.6", "3.0")


@pytest.mark.parametrize(
    ("options", "more", "words"),
    [
        ({"model": "bert-large"}, {}, "requires an image model"),
        ({}, {}, "requires an image model"),
        ({"model": "resnet50"}, {"as_json": True}, "cannot be combined"),
        ({"model": "resnet50"}, {"compared": True}, "cannot show variants"),
    ],
)
def test_where_it_would_be_false_it_is_refused(options, more, words):
    with pytest.raises(UsageError, match=words):
        ending.require_possible(
            Output.horovod, request(**options), **{"as_json": False, "compared": False, **more}
        )


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"model": "resnet51"}, "unknown model 'resnet51'"),
        ({"model": "resnet50", "phase": 2}, "--phase is only for BERT"),
        ({"model": "bert-large", "channels_last": True}, "--channels-last is for images"),
        ({"model": "bert-large", "image_size": 64}, "--image-size is for images"),
        ({"model": "resnet50", "precision": "fp8"}, "unknown precision 'fp8'"),
        ({"precision": "fp32"}, "--precision requires --model"),
        ({"compiled": True, "bucket_cap_mb": 1.0}, "--compile, --bucket-cap-mb requires --model"),
    ],
)
def test_what_a_model_cannot_have_is_refused(options, words):
    with pytest.raises(UsageError) as refused:
        request(**options)
    assert words in refused.value.message


def test_a_mistyped_model_is_answered_with_the_one_that_was_meant():
    with pytest.raises(UsageError) as refused:
        request(model="bert-larg")
    assert refused.value.hint.startswith("did you mean bert-large")


def test_the_ways_of_training_reach_the_ranks():
    training = request(
        model="bert-large", phase=2, precision="amp-bf16", compiled=True, bucket_cap_mb=50.0
    ).training
    argv = training.argv(("training",))
    assert "--compile" in argv
    for flag, value in (("--phase", "2"), ("--precision", "amp-bf16"), ("--bucket-cap-mb", "50.0")):
        assert argv[argv.index(flag) + 1] == value
