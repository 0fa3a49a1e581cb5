"""python hanging.py FOLDER COMMAND...: runs a command for which FOLDER is a file system that never
answers, as a share does whose server is gone.

Linux and root only. The mount is FUSE's and seen by this process alone; whoever serves it has said
that it is there, and reads no further request. It ends with the command, which holds it open.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Final

_NEW_NAMESPACE: Final = 0x00020000
_PRIVATE: Final = (1 << 18) | (1 << 14)
_INIT: Final = 26


def main(folder: str, *command: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, *arguments: object) -> None:
        if getattr(libc, name)(*arguments) != 0:
            raise OSError(ctypes.get_errno(), name)

    call("unshare", _NEW_NAMESPACE)
    call("mount", None, b"/", None, _PRIVATE, None)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0"
    call("mount", b"hanging", os.fsencode(folder), b"fuse", 0, options.encode())
    request = os.read(device, 1 << 17)
    _, kind, number = struct.unpack_from("=IIQ", request)
    assert kind == _INIT, kind
    major, minor = struct.unpack_from("=II", request, 40)
    # fuse_init_out of <linux/fuse.h>: no option is taken, 4 KiB at most are written at once.
    answer = struct.pack("=IIIIHHI40x", major, minor, 0, 0, 0, 0, 4096)
    os.write(device, struct.pack("=IiQ", 16 + len(answer), 0, number) + answer)
    os.set_inheritable(device, True)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(*sys.argv[1:])
