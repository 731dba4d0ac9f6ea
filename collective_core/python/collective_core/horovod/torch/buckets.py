"""Which gradients are reduced together. Pure, and the same on all ranks, since it only looks at the parameters."""

from __future__ import annotations

from collections.abc import Sequence

import torch

Named = tuple[str, torch.nn.Parameter]
Bucket = tuple[Named, ...]


def by_size(parameters: Sequence[Named], limit_bytes: int) -> list[Bucket]:
    """Fill buckets in the order in which backward passes make gradients, which is about the reverse of the model's.

    A bucket has one type and device and at most `limit_bytes`, or is a single parameter.
    """
    buckets: list[list[Named]] = []
    open_ones: dict[tuple[torch.dtype, torch.device], tuple[list[Named], int]] = {}
    for name, parameter in reversed(parameters):
        kind = (parameter.dtype, parameter.device)
        needed = parameter.numel() * parameter.element_size()
        bucket, filled = open_ones.get(kind, ([], 0))
        if not bucket or filled + needed > limit_bytes:
            bucket, filled = [], 0
            buckets.append(bucket)
        bucket.append((name, parameter))
        open_ones[kind] = (bucket, filled + needed)
    return _in_order(parameters, [tuple(bucket) for bucket in buckets])


def _in_order(parameters: Sequence[Named], buckets: list[Bucket]) -> list[Bucket]:
    """Sort by when a bucket's last gradient comes."""
    place = {id(parameter): number for number, (_, parameter) in enumerate(parameters)}
    return sorted(buckets, key=lambda bucket: -min(place[id(parameter)] for _, parameter in bucket))


def by_groups(
    parameters: Sequence[Named], groups: int | Sequence[Sequence[torch.Tensor]], limit_bytes: int
) -> list[Bucket]:
    """Make as many buckets as a number says, or those of a list of lists of parameters; the rest by size.

    Raises ValueError for a parameter that is in no or several groups where it must be in one.
    """
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(
                f"groups={groups}: expected a number of groups, not negative, or lists of parameters"
            )
        backwards = list(reversed(parameters))
        count = min(groups, len(backwards))
        ends = [len(backwards) * (place + 1) // count for place in range(count)]
        begins = [0, *ends[:-1]] if ends else []
        return [tuple(backwards[begin:end]) for begin, end in zip(begins, ends, strict=True)]
    place = {id(parameter): number for number, (_, parameter) in enumerate(parameters)}
    listed = [id(parameter) for group in groups for parameter in group]
    if len(set(listed)) != len(listed):
        raise ValueError("a parameter is in several groups")
    if any(one not in place for one in listed):
        raise ValueError("a group has a parameter that the optimizer has not, or that needs no gradient")
    chosen = [tuple(parameters[place[id(parameter)]] for parameter in group) for group in groups if group]
    rest = [named for named in parameters if id(named[1]) not in set(listed)]
    return _in_order(parameters, chosen + by_size(rest, limit_bytes))
