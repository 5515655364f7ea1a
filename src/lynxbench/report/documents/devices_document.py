"""The catalogue of devices: what makers state, and where."""

from collections.abc import Iterable

from lynxbench.model.decisions import Device
from lynxbench.report import doc, words
from lynxbench.report.doc import Inline, said


def compose_devices(devices: Iterable[Device]) -> doc.Report:
    """Every device with its nameplate figures; what no source states stays open."""
    listed = list(devices)
    head = ("Device", "Title", "Memory", "Memory rate", "Dense rates, 10¹²/s", "Board", "Drivers report", "Sources")
    table = doc.Table(
        head,
        [_row(device) for device in listed],
        "Nameplate figures of one device, without sparsity: what a sheet promises, never what a workload reaches",
        note=f"{words.count(len(listed), 'device')}. Yours: --catalogue FILE. A dash: no source was found.",
    )
    return doc.Report("Devices", (table,))


def _row(device: Device) -> tuple[Inline, ...]:
    rates = ", ".join(f"{name} {words.digits(rate, 4)}" for name, rate in device.dense_tera_per_s.items())
    return (
        said(device.name),
        said(device.title),
        _amount(device.memory_gb, "GB"),
        _amount(device.memory_tb_per_s, "TB/s"),
        rates or words.NO_FIGURE,
        _amount(device.board_w, "W"),
        said(", ".join(device.reported_as)),
        said("; ".join(f"{source.what}: {source.where}" for source in device.sources)),
    )


def _amount(value: float | None, unit: str) -> str:
    return words.NO_FIGURE if value is None else f"{words.digits(value)}{words.NBSP}{unit}"
