"""The catalogue of accelerators as values: parsed strictly, extended by a file of the user's own."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

from pydantic import ValidationError

from lynxbench.errors import BadInput
from lynxbench.model.decisions import CeilingSource, Device
from lynxbench.model.executor import Executor
from lynxbench.model.layers import Layer
from lynxbench.model.precision import Precision

_RENAMED = {
    "dense": "dense_tera_per_s",
    "memory": "memory_tb_per_s",
    "link": "link_gb_per_s",
    "interconnect": "interconnect_gb_per_s",
}
_REQUIRED = ("title", "dense", "memory_gb", "memory", "link", "board_w", "native", "released", "sources")


def parse_catalogue(document: object, file: str) -> dict[str, Device]:
    """Devices by name; BadInput says the file, the device, the key and what would be right."""
    if not isinstance(document, Mapping) or document.get("lynxbench") != 1:
        raise BadInput(f"{file}: a catalogue begins with `lynxbench: 1` and lists `devices`")
    strange = sorted(set(map(str, document)) - {"lynxbench", "devices"})
    if strange:
        raise BadInput(f"{file}: unknown key {strange[0]!r}; a catalogue has `lynxbench` and `devices`")
    devices = document.get("devices")
    if not isinstance(devices, Mapping) or not devices:
        raise BadInput(f"{file}: `devices` must be a mapping of names to devices")
    return {str(name): _device(str(name), body, file) for name, body in devices.items()}


def find_device(catalogue: Mapping[str, Device], name: str) -> Device:
    """A device by its short name; BadInput lists what is near."""
    found = catalogue.get(name.lower())
    if found is not None:
        return found
    near = difflib.get_close_matches(name.lower(), catalogue, n=3, cutoff=0.4) or sorted(catalogue)
    raise BadInput(f"--hardware {name!r} is not in the catalogue ({', '.join(near)}); add it with --catalogue FILE")


def recognise(catalogue: Mapping[str, Device], executor: Executor) -> Device | None:
    """The device an executor runs on, by the name its driver reports; None where it is not in the catalogue."""
    said = executor.get(Layer.ACCELERATOR, "gpu_name")
    names = said if isinstance(said, list) else [said]
    reported = next((name.lower() for name in names if isinstance(name, str)), None)
    if reported is None:
        return None
    hits = [
        (len(alias), device)
        for device in catalogue.values()
        for alias in device.reported_as
        if re.search(rf"(?<!\w){re.escape(alias)}(?!\w)", reported)  # an A10 is no A100
    ]
    return max(hits, key=lambda hit: hit[0])[1] if hits else None


def _device(name: str, body: object, file: str) -> Device:
    where = f"{file}: device {name}"
    if not isinstance(body, Mapping):
        raise BadInput(f"{where}: must be a mapping of keys")
    missing = [key for key in _REQUIRED if key not in body]
    if missing:
        raise BadInput(f"{where}: {missing[0]!r} is missing")
    known = {*_REQUIRED, "interconnect", "reported_as"}
    strange = sorted(str(key) for key in body if key not in known)
    if strange:
        raise BadInput(f"{where}: unknown key {strange[0]!r}; known are {', '.join(sorted(known))}")
    try:
        values = {_RENAMED.get(str(key), str(key)): value for key, value in body.items()}
        values["dense_tera_per_s"] = {Precision(key): float(rate) for key, rate in _mapping(body, "dense").items()}
        values["native"] = tuple(Precision(str(one)) for one in _list(body, "native"))
        values["reported_as"] = tuple(str(one).lower() for one in _list(body, "reported_as"))
        values["sources"] = tuple(CeilingSource.model_validate(one) for one in _list(body, "sources"))
        values["released"] = str(body["released"])
        for key in ("memory_gb", "memory_tb_per_s", "link_gb_per_s", "interconnect_gb_per_s", "board_w"):
            if values.get(key) is not None:
                values[key] = float(values[key])
        device = Device.model_validate({"name": name, **values})
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise BadInput(f"{where}: {'.'.join(map(str, first['loc']))}: {first['msg']}") from None
    except (ValueError, TypeError) as error:
        raise BadInput(f"{where}: {error}") from None
    rates = [*device.dense_tera_per_s.values(), device.memory_gb, device.memory_tb_per_s, device.link_gb_per_s]
    if not all(0 < rate < 1e9 for rate in (*rates, device.board_w)):
        raise BadInput(f"{where}: every rate, size and power must be above 0")
    return device


def _mapping(body: Mapping[object, object], key: str) -> dict[str, float]:
    found = body[key]
    if not isinstance(found, Mapping) or not found:
        raise TypeError(f"{key}: must map formats to rates, such as {{bf16: 989.4}}")
    return {str(name): float(rate) for name, rate in found.items()}


def _list(body: Mapping[object, object], key: str) -> list[object]:
    found = body.get(key, [])
    if not isinstance(found, list | tuple):
        raise TypeError(f"{key}: must be a list")
    return list(found)
