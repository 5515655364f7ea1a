"""`lynxbench results`: the ledger."""

from lynxbench.cli.lazy_commands import command_group

app = command_group(
    "The ledger: list, show, export, import, prove.",
    {
        "list=results_list": "List results, newest first, with their intervals and standing.",
        "show=results_show": "Show a result, what it stands on, and everything that was said about it.",
        "export=results_exchange": (
            "Write results with everything about them into one file that another ledger can import and verify."
        ),
        "import=results_exchange": (
            "Verify a bundle against your own trust list and take it in, or record a run's folder or a foreign result."
        ),
        "foreign=results_show": "List results of other tools that were imported, with what each fails to state.",
        "log=results_log": "State, checkpoints and proofs of the log.",
    },
)
