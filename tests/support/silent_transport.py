"""A transport that takes what is written and does nothing with it, for connections whose answers are handed to them."""


class SilentTransport:
    """As a loop would give it to a connection; encrypted by its looks, so that no socket is asked for."""

    def get_extra_info(self, name):
        return object() if name == "ssl_object" else None

    def write(self, data):
        pass

    def abort(self):
        pass
