"""The ways of training reach torch: precision, compilation, the buckets of DDP."""

import time

import pytest
import torch
import torch.distributed as dist

from clusterctl.workloads import places
from clusterctl.workloads.bert_task import BertPretraining
from clusterctl.workloads.data_parallel import Ddp
from clusterctl.workloads.image_task import ImageClassification
from clusterctl.workloads.trainer import Trainer, Ways, Windows, measure, steps_apart
from clusterctl.workloads.training_sizes import default_sizes

CPU = torch.device("cpu")
ALONE = places.Place("none", 0, 1, 0, 1)


def trainer(together=None, **ways):
    return Trainer(BertPretraining("bert-tiny", 1, batch_size=1), Ways(**ways), ALONE, CPU, together)


@pytest.fixture
def process_group():
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def test_buckets_are_as_large_as_asked(process_group):
    together = Ddp("gloo", "none", 0.5)
    assert trainer(together).model.bucket_bytes_cap == 1 << 19
    assert together.settings()["bucket_cap_mb"] == 0.5


def test_without_a_word_the_buckets_are_ddps_own(process_group):
    made = trainer(Ddp("gloo", "none", None))
    ddp = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
    assert made.model.bucket_bytes_cap == ddp.bucket_bytes_cap


def test_steps_without_an_exchange_show_what_it_takes(process_group):
    """DDP's own hook is the exchange; here it takes 0.3 s."""
    made = trainer(Ddp("gloo", "none", 1000.0))
    exchanged = []

    def slow(_state, bucket):
        exchanged.append(bucket.index())
        time.sleep(0.3)
        future = torch.futures.Future()
        future.set_result(bucket.buffer())
        return future

    slow.__annotations__.clear()
    made.model.register_comm_hook(None, slow)
    together, alone = steps_apart(made, steps=1)
    assert len([index for index in exchanged if index == 0]) == 4
    assert together - alone > 0.15
    assert steps_apart(trainer(), steps=1) is None


# Loading the compiler takes torch through its own deprecated parts.
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compilation_wraps_the_model():
    assert isinstance(trainer(compile=True).model, torch._dynamo.eval_frame.OptimizedModule)
    assert Ways(compile=True).settings()["compile"] is True


@pytest.mark.parametrize("precision", ["amp-bf16", "amp-fp16"])
def test_halves_are_computed_in_and_parameters_stay_whole(precision):
    made = trainer(precision=precision)
    seen = []
    made.model.layers[0].inner.register_forward_hook(lambda _m, _i, output: seen.append(output.dtype))
    before = made.digest()
    made.step()
    made.step()
    assert set(seen) == {{"amp-bf16": torch.bfloat16, "amp-fp16": torch.float16}[precision]}
    assert {p.dtype for p in made.model.parameters()} == {torch.float32}
    assert made.scaler.is_enabled() == (precision == "amp-fp16")
    assert made.digest() != before


def test_tf32_is_refused_where_it_would_be_fp32_without_a_word():
    with pytest.raises(places.RankError, match="tf32 needs an NVIDIA GPU"):
        trainer(precision="tf32")


def test_images_keep_their_memory_format():
    task = ImageClassification("resnet18", 2, 32, channels_last=True)
    images, _ = task.batch(torch.Generator().manual_seed(1), CPU)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert task.build(CPU).stem[0].weight.is_contiguous(memory_format=torch.channels_last)
    assert task.settings()["channels_last"] is True


def test_every_window_has_a_rate_and_a_loss():
    found = measure(trainer(learning_rate=1e-3), Windows(warmup=1, count=3, steps=1))
    assert len(found.rates) == len(found.losses) == 3
    assert all(rate > 0 for rate in found.rates)
    assert found.losses[-1] < found.loss_first


def test_on_a_cpu_the_batch_gives_way_and_never_the_model():
    assert default_sizes("bert-large", 1, gpu=False).batch_size == 1
    assert (
        default_sizes("bert-large", 1, gpu=True).batch_size * 128
        == default_sizes("bert-large", 2, gpu=True).batch_size * 512
    )
    assert default_sizes("inception_v3", 1, gpu=False).image_size == 299
    assert default_sizes("vit_b_16", 1, gpu=False).image_size == 224
