#!/usr/bin/env python3
"""null.py PORT calls the NULL procedure of the NFS server behind a tunnel's port, and fails if that does not answer."""
import socket
import struct
import sys

NFS, VERSION, NULL = 100003, 4, 0
CALL, REPLY, ACCEPTED, SUCCESS = 0, 1, 0, 0
XID = 42


def call(port):
    message = struct.pack(">10I", XID, CALL, 2, NFS, VERSION, NULL, 0, 0, 0, 0)
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(struct.pack(">I", 0x80000000 | len(message)) + message)
        answer = b""
        while len(answer) < 28:
            part = connection.recv(28 - len(answer))
            if not part:
                raise ConnectionResetError("Connection reset by peer")
            answer += part
    _, xid, kind, accepted, _, _, status = struct.unpack(">7I", answer)
    if (xid, kind, accepted, status) != (XID, REPLY, ACCEPTED, SUCCESS):
        raise OSError("the server refuses: %s" % answer.hex())


if __name__ == "__main__":
    call(int(sys.argv[1]))
