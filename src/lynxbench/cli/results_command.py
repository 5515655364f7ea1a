"""`lynxbench results`: the ledger."""

from lynxbench.cli.lazy_commands import COMMANDS, command_group

app = command_group("The ledger: list, show, export, import, prove.", COMMANDS["results"])
