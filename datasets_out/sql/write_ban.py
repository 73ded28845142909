"""Takes from this process the right to change any file, in case DuckDB's own settings should let a write through.

Promise: after `forbid_writes()` the kernel refuses this process to open for writing, create, delete, rename or truncate
any file, whoever it runs as. Descriptors already open stay usable, so a pipe still carries results. This needs Linux
5.13 or newer (Landlock); elsewhere the size limit alone holds.
"""

import ctypes
import os
import resource
import struct
import sys

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION_FLAG = 1
_NO_NEW_PRIVILEGES = 38
_WRITE_FILE = 1 << 1
_REMOVE_AND_MAKE = sum(1 << bit for bit in range(4, 13))
_TRUNCATE, _TRUNCATE_SINCE = 1 << 14, 3


def forbid_writes() -> bool:
    """Forbids writes to this thread and all that it starts later, for good: call it before any thread starts.

    True if the kernel now refuses every change; False if it has no Landlock, and files merely cannot grow.
    """
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    version = libc.syscall(_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return False
    rights = _WRITE_FILE | _REMOVE_AND_MAKE | (_TRUNCATE if version >= _TRUNCATE_SINCE else 0)
    attributes = struct.pack("<Q", rights)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    if ruleset < 0:
        return False
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    refused: int = libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return refused == 0
