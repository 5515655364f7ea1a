"""Bytes to the socket at once, past a transport's queue: what is stamped as sent has left this process."""

import asyncio
import os


def write_request(transport: asyncio.Transport, fd: int, data: bytes) -> int:
    """Write what a client asks; the descriptor to go on with, -1 once the transport has something queued.

    From then on the transport alone keeps the order. A connection that is gone is aborted: `connection_lost` decides
    between another try and a reset.
    """
    if fd < 0:
        transport.write(data)
        return fd
    try:
        written = os.write(fd, data)
    except BlockingIOError:
        written = 0
    except OSError:
        transport.abort()
        return fd
    if written == len(data):
        return fd
    transport.write(memoryview(data)[written:])
    return -1


def write_answer(transport: asyncio.Transport, fd: int, data: bytes) -> bool:
    """Write what a server answers, directly whenever nothing is queued; whether the client is still there."""
    if fd >= 0 and transport.get_write_buffer_size() == 0:
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            pass
        except OSError:
            transport.abort()
            return False
    if data:
        transport.write(data)
    return True
