#!/usr/bin/env python3
"""The first process of a container: it has /proc/mounts show /test/mounts, says so, and removes processes that end."""
import ctypes
import os
import signal

AT_FDCWD, OPEN_TREE_CLONE, MOVE_MOUNT_F_EMPTY_PATH = -100, 1, 4
SYS_OPEN_TREE, SYS_MOVE_MOUNT = 428, 429  # on every architecture

libc = ctypes.CDLL(None, use_errno=True)
tree = libc.syscall(SYS_OPEN_TREE, AT_FDCWD, b"/test/mounts", OPEN_TREE_CLONE)
# Unlike mount(2), this does not follow the link that /proc/mounts is.
if tree < 0 or libc.syscall(SYS_MOVE_MOUNT, tree, b"", AT_FDCWD, b"/proc/mounts", MOVE_MOUNT_F_EMPTY_PATH):
    raise OSError(ctypes.get_errno(), "mount over /proc/mounts")
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
print("ready", flush=True)
while True:
    signal.pause()
