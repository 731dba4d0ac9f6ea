"""Messages between ranks: both directions at once, whichever rank starts first."""

import torch
import torch.distributed as dist

from clusterctl.workloads.exchange import exchange


def test_the_receive_is_posted_before_the_send(monkeypatch):
    """gloo would announce it behind all the data that is sent, and the two directions would follow each other."""
    posted = []
    monkeypatch.setattr(dist, "P2POp", lambda call, tensor, peer, group: (call, tensor.item(), peer, group))
    monkeypatch.setattr(dist, "batch_isend_irecv", lambda ops: posted.append(ops) or [])
    sent, received = torch.tensor([1]), torch.tensor([2])
    for message in ((sent, received), (sent, None), (None, received)):
        exchange(message, to=5, source=6, group="rail")
    send, receive = (dist.isend, 1, 5, "rail"), (dist.irecv, 2, 6, "rail")
    assert posted == [[receive, send], [send], [receive]]
