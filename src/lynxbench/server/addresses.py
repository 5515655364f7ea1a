"""Names and numbers of machines."""

import ipaddress


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine alone."""
    address = address_of(host.strip("[]"))
    return host == "localhost" or (address is not None and address.is_loopback)


def address_of(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The number that a host is written as; None for a name."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
