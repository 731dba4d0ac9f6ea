"""The enums of the C ABI."""

from __future__ import annotations

from enum import IntEnum


class Dtype(IntEnum):
    """cc_dtype."""

    FLOAT64 = 0
    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    INT8 = 4
    UINT8 = 5
    INT32 = 6
    UINT32 = 7
    INT64 = 8
    UINT64 = 9
    FLOAT8_E4M3 = 10
    FLOAT8_E5M2 = 11


class Redop(IntEnum):
    """cc_redop."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4


class Transport(IntEnum):
    """cc_transport."""

    AUTO = 0
    SHM = 1
    TCP = 2


class Memory(IntEnum):
    """cc_memory."""

    AUTO = 0
    HOST = 1
    DEVICE = 2


class Operation(IntEnum):
    """cc_operation."""

    ALL_REDUCE = 1
    BROADCAST = 2
    ALL_GATHER = 3
    REDUCE_SCATTER = 4
    BARRIER = 5
    SEND = 6
    REDUCE = 7
    GATHER = 8
    SCATTER = 9
    ALL_TO_ALL = 10
    ALL_TO_ALLV = 11
    ALL_GATHERV = 12
    TOPK_ALL_REDUCE = 13
    CPU_REDUCE = 14
    SPLIT = 20
    FINALIZE = 21
    TUNING = 22
    MEM_REGISTER = 23
    MEM_DEREGISTER = 24
    MEETING = 25
    RECV = 32


class CudaPath(IntEnum):
    """cc_cuda_path."""

    AUTO = 0
    STREAM = 1
    KERNEL = 2
    HOST = 3


class SettingSource(IntEnum):
    """cc_setting_source."""

    DEFAULT = 0
    ENVIRONMENT = 1
    CONFIG = 2
    RANK_0 = 3
    NOT_USED = 4


class Reason(IntEnum):
    """cc_reason: what made the library choose an algorithm."""

    ONLY = 0
    FORCED = 1
    TUNER = 2
    MEASURED = 3
    MODEL = 4
