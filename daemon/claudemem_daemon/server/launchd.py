"""The sockets that launchd opened for us; macOS alone."""

from __future__ import annotations

import ctypes
import os
import sys
from typing import Final

SOCKET_NAME: Final = "Listener"
"""The key below `Sockets` in the agent's property list."""


def launchd_sockets(name: str = SOCKET_NAME) -> list[int]:
    """File descriptors of the listening sockets, empty where launchd started us without any, or
    on another system. To be asked once in a process's life (launch_activate_socket(3))."""
    if sys.platform != "darwin":
        return []
    libc = ctypes.CDLL(None, use_errno=True)
    activate = libc.launch_activate_socket
    activate.argtypes = [
        ctypes.c_char_p,
        ctypes.POINTER(ctypes.POINTER(ctypes.c_int)),
        ctypes.POINTER(ctypes.c_size_t),
    ]
    activate.restype = ctypes.c_int
    descriptors = ctypes.POINTER(ctypes.c_int)()
    count = ctypes.c_size_t()
    # ESRCH: not started by launchd; ENOENT: no such entry in the property list.
    if activate(os.fsencode(name), ctypes.byref(descriptors), ctypes.byref(count)) != 0:
        return []
    try:
        return [descriptors[index] for index in range(count.value)]
    finally:
        libc.free.argtypes = [ctypes.c_void_p]
        libc.free(descriptors)
