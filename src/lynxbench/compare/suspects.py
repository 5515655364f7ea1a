"""Which layers differ, ranked as suspects with their owners, and the experiment that would separate them.

The ranking is data: fields known to change speed, then other library code, then other versions, then state. A field
whose change only follows from another field's is counted with that one.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from lynxbench.compare.whole_rules import brief, weights_of
from lynxbench.model.comparison import LIKELY, CauseKind, EffectCause, FieldSuspect, LayerDifference, Weight
from lynxbench.model.executor import FieldChange, Tier, difference
from lynxbench.model.layers import DEFAULT_OWNERS, Layer
from lynxbench.model.result import Result


@dataclass(frozen=True, slots=True)
class Suspicion:
    """Fields whose name matches in full, in any of the layers, and what they are known for."""

    layers: tuple[Layer, ...]
    names: str
    weight: Weight
    reason: str

    def fits(self, layer: Layer, name: str) -> bool:
        """Whether it speaks of this field."""
        return layer in self.layers and re.fullmatch(self.names, name) is not None


SUSPICIONS: tuple[Suspicion, ...] = (
    Suspicion((Layer.APPLICATION,), "model_sha256|model.*|weights.*|parameters|architecture", Weight.KNOWN,
              "another model is other work"),
    Suspicion((Layer.APPLICATION,), "callable.*|decoding|quantis.*", Weight.KNOWN, "other code is other work"),
    Suspicion((Layer.SERVING,), "batching|streaming|server_command|server_launch", Weight.KNOWN,
              "batching and launch options decide what runs together"),
    Suspicion((Layer.RUNTIME,), "precision|graph.*|attention|device|kv_cache|quantis.*|threads|.*provider.*|"
              "graph_optimisation|.*threads", Weight.KNOWN, "it decides which kernels run, and how many at a time"),
    Suspicion((Layer.RUNTIME,), "cudnn_origin|openmp_libraries|thread_pool_libraries|cuda_libraries|"
              "server_cuda_libraries|numpy_blas", Weight.KNOWN, "kernel libraries do the arithmetic"),
    Suspicion((Layer.FRAMEWORK,), "threads|torch_threads|torch_interop_threads|torch_cpu_capability|torch_tf32.*|"
              "torch_float32_matmul_precision|fp32_products|torch_cudnn.*|torch_deterministic|torch_sdp_backends|"
              "torch_mkldnn.*|torch_.*_reduction|torch_debug|python_debug|python_gil", Weight.KNOWN,
              "it decides which kernels run, and how many at a time"),
    Suspicion((Layer.SYSTEM,), "nvidia_driver.*", Weight.KNOWN, "drivers change launch cost, clocks and kernels"),
    Suspicion((Layer.SYSTEM,), "governor|energy_preference|frequency_.*|turbo|idle_driver|smt", Weight.KNOWN,
              "frequency policy sets the clocks"),
    Suspicion((Layer.SYSTEM,), "affinity.*|process_affinity|cpus_.*|cgroup_cpu.*", Weight.KNOWN,
              "it decides how many CPUs may work"),
    Suspicion((Layer.SYSTEM,), "numa_.*|transparent_huge_pages.*|huge_pages|zone_reclaim|cgroup_memory.*|swap_total.*",
              Weight.KNOWN, "it decides where memory lies"),
    Suspicion((Layer.SYSTEM,), "mitigations|clocksource|virtual_machine|container", Weight.KNOWN,
              "it taxes every call into the kernel"),
    Suspicion((Layer.SYSTEM,), "environment|process_environment", Weight.KNOWN, "these variables tune libraries"),
    Suspicion((Layer.ACCELERATOR,), "gpu_power_limit_(enforced|requested)_w|gpu_clock_.*_applications_mhz",
              Weight.KNOWN, "a lower limit lowers the clocks under load"),
    Suspicion((Layer.ACCELERATOR,), "gpu_pcie_.*_(max|warm)|gpu_nvlink.*|gpu_topology|gpu_cpu_affinity|gpu_memory_node",
              Weight.KNOWN, "links and placement bound what moves"),
    Suspicion((Layer.ACCELERATOR,), "gpu_name|gpu_count|gpu_capability|gpu_memory_b.*|gpu_clock_.*_max_mhz|gpu_mig.*|"
              "gpu_ecc|cpu_model|cpu_cores|cpu_threads|cpu_sockets|cpu_caches|cpu_flags|cpu_microcode|memory_speed.*|"
              "memory_total_gib|server_gpus", Weight.KNOWN, "other hardware"),
    Suspicion(tuple(Layer), "native_libraries|mapped_libraries|server_libraries|server_mapped_libraries|"
              "system_libraries|.*_sha256", Weight.LIBRARY, "the code that was loaded differs"),
    Suspicion((Layer.PROCUREMENT, Layer.DEMAND), ".*", Weight.NONE, "stated by people; it executes nothing"),
    Suspicion((Layer.FACILITY,), ".*", Weight.VERSION, "cooling and power bound what is sustained"),
)  # fmt: skip
"""The first that fits decides; every other configuration field is a version or setting, every other one is state."""

ORDER: tuple[Weight, ...] = tuple(Weight)
OWNERS_APART = ", "
COUNTS = (Weight.KNOWN, Weight.LIBRARY, Weight.VERSION)
"""What can be a cause. State moves by itself all the time."""

_THREADS = r"framework\.(torch_(interop_)?threads|threads)|runtime\.threads"
FOLLOWS: tuple[tuple[str, str], ...] = (
    (r"framework\.distributions_sha256", r"framework\.distributions"),
    (r"framework\.(python_build|python_compiler|python)", r"framework\.python_version"),
    (r"framework\.(torch_git|torch_build|torch_build_sha256|torch_version|torch_cuda|torch_hip)", r"framework\.torch"),
    (r"framework\.distributions", r"framework\.(torch|transformers|onnxruntime|tokenizers|safetensors|numpy)"),
    (r"runtime\.native_libraries",
     r"framework\.(torch|transformers|onnxruntime|tokenizers|safetensors|numpy|python_version)"),
    (r"runtime\.numpy_blas", r"framework\.numpy"),
    (r"accelerator\.cpu_flags_sha256", r"accelerator\.cpu_flags"),
    (r"accelerator\.memory_total_bytes", r"accelerator\.memory_total_gib"),
    (r"system\.(affinity_count|process_affinity)", r"system\.affinity"),
    (_THREADS, r"system\.(affinity|process_affinity|cgroup_cpus|cgroup_cpu_limit|cpus_online)"),
    (r"framework\.torch_(interop_)?threads", r"runtime\.threads"),
    (r"system\.process_environment", r"system\.environment"),
    (r"system\.nvidia_driver_cuda", r"system\.nvidia_driver"),
    (r"system\.(kernel_build|mitigations)", r"system\.kernel"),
    (r"system\.mapped_libraries", r"system\.(os|libc|nvidia_driver)"),
    (r"application\.(model_source|parameters|weights_as_shipped)", r"application\.model_sha256"),
)  # fmt: skip
"""A change of the left follows from a change of the right: it is shown, and counted on the right."""
THREAD_VARIABLES = frozenset({"OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"})
"""Set for every process by the harness from the thread count: a change of them alone follows from it."""
THREAD_LAYER = {"torch": Layer.FRAMEWORK}
"""Where an engine's thread count lives; with the others it is the runtime's."""


def changes_between(a: Result, b: Result) -> tuple[FieldChange, ...]:
    """Every executor field that differs; the engine's thread count among them, which some engines do not record."""
    changes = difference(a.executor, b.executor)
    left, right = a.conditions.threads, b.conditions.threads
    recorded = any(re.fullmatch(_THREADS, f"{c.layer}.{c.name}") for c in changes)
    if left != right and not recorded and a.conditions.clients is None and b.conditions.clients is None:
        layer = THREAD_LAYER.get(b.conditions.engine, Layer.RUNTIME)
        changes = (
            *changes,
            FieldChange(layer=layer, name="threads", tier=Tier.CONFIGURATION, before=left, after=right),
        )
    return changes


def rank_changes(changes: Sequence[FieldChange], owners: dict[Layer, str]) -> tuple[LayerDifference, ...]:
    """The layers that changed, the strongest suspect first, each with its owner."""
    weighed = [(change.layer, weigh(change, changes)) for change in changes]
    ranked = []
    for layer in dict.fromkeys(layer for layer, _ in weighed):
        fields = sorted(
            (field for where, field in weighed if where is layer),
            key=lambda field: (field.follows is not None, ORDER.index(field.weight), field.name),
        )
        own = [field for field in fields if field.follows is None]
        weight = min((field.weight for field in own), key=ORDER.index, default=Weight.STATE)
        known = sum(field.weight is weight for field in own)
        ranked.append((ORDER.index(weight), -known, layer, fields))
    ranked.sort(key=lambda entry: (entry[0], entry[1], list(Layer).index(entry[2])))
    return tuple(
        LayerDifference(
            layer=layer,
            owner=owners.get(layer, DEFAULT_OWNERS[layer]),
            rank=place,
            weight=ORDER[order],
            fields=tuple(fields),
        )
        for place, (order, _, layer, fields) in enumerate(ranked, start=1)
    )


def weigh(change: FieldChange, among: Iterable[FieldChange] = ()) -> FieldSuspect:
    """How suspicious one changed field is."""
    weight, reason = _weight(change)
    return FieldSuspect(
        name=change.name,
        tier=change.tier,
        before=change.before,
        after=change.after,
        weight=weight,
        reason=reason,
        follows=_parent(change, among),
    )


def _weight(change: FieldChange) -> tuple[Weight, str]:
    fitting = next((s for s in SUSPICIONS if s.fits(change.layer, change.name)), None)
    if change.tier is not Tier.CONFIGURATION and (fitting is None or fitting.weight is not Weight.NONE):
        warm = change.name.endswith("_warm")  # a link read under load: state by tier, and known to matter
        if not warm:
            what = "another machine" if change.tier is Tier.INSTANCE else "it moves by itself"
            return Weight.STATE, what
    if fitting is not None:
        return fitting.weight, fitting.reason
    return Weight.VERSION, "versions and settings change code paths"


def _parent(change: FieldChange, among: Iterable[FieldChange]) -> str | None:
    own = f"{change.layer}.{change.name}"
    others = [f"{other.layer}.{other.name}" for other in among if other is not change]
    if change.name == "process_environment" and changed_keys(change.before, change.after) <= THREAD_VARIABLES:
        pattern = rf"{_THREADS}|system\.(affinity|process_affinity|cgroup_cpus)"
        threads = next((name for name in others if re.fullmatch(pattern, name)), None)
        if threads is not None:
            return threads
    for child, parent in FOLLOWS:
        if re.fullmatch(child, own):
            source = next((name for name in others if re.fullmatch(parent, name)), None)
            if source is not None:
                return source
    return None


def changed_keys(before: JsonValue, after: JsonValue) -> frozenset[str]:
    """The keys of two mappings whose values differ; empty for anything else."""
    if not isinstance(before, dict) or not isinstance(after, dict):
        return frozenset()
    return frozenset(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))


@dataclass(frozen=True, slots=True)
class CauseWords:
    """What is said of the layers that differ: each with its sentence and the experiment that would tell.

    `{layer}`, `{fields}` and `{names}` are the first layer and what changed in it, `{all}` and `{count}` all of them.
    """

    nothing: tuple[str, str]
    alone: tuple[str, str]
    several: tuple[str, str]


BETWEEN_RESULTS = CauseWords(
    nothing=(
        "nothing that is recorded changed: the cause is outside the record, or there is none",
        "run {contract} again on the same executor; if the effect stays, look at what no probe reads (neighbours on "
        "the host, cooling, network)",
    ),
    alone=(
        f"only layer {{layer}} changed ({{fields}}){LIKELY}",
        "put {fields} back and run {contract} again: if the effect stays, it was not the cause",
    ),
    several=(
        "{count} layers changed together and cannot be separated: {all}",
        "run {contract} on A's stack with only {layer} ({fields}) as in B; all {combinations} combinations would also "
        "show how they interact",
    ),
)


def name_cause(
    layers: Sequence[LayerDifference], contract: str, words: CauseWords, describe: Callable[[LayerDifference], str]
) -> EffectCause:
    """Nothing recorded, one layer, or several that cannot be separated, in these words."""
    counted = [difference for difference in layers if difference.weight in COUNTS]
    if not counted:
        sentence, experiment = words.nothing
        return EffectCause(
            kind=CauseKind.NOTHING_RECORDED, sentence=sentence, experiment=experiment.format(contract=contract)
        )
    first, alone = counted[0], len(counted) == 1
    sentence, experiment = words.alone if alone else words.several
    values = {
        "contract": contract,
        "layer": first.layer,
        "fields": describe(first),
        "names": ", ".join(field.name for field in strongest(first)[:2]),
        "all": ", ".join(f"{difference.layer} ({describe(difference)})" for difference in counted),
        "count": len(counted),
        "combinations": 2 ** min(len(counted), 10),
    }
    return EffectCause(
        kind=CauseKind.ONE_LAYER if alone else CauseKind.NOT_SEPARABLE,
        layer=first.layer if alone else None,
        owner=OWNERS_APART.join(dict.fromkeys(difference.owner for difference in counted)),
        sentence=sentence.format_map(values),
        experiment=experiment.format_map(values),
    )


def cause_of(layers: Sequence[LayerDifference], *, model_changed: bool, contract: str) -> EffectCause:
    """What the record says: one layer, several that cannot be separated, the model, or nothing."""
    if model_changed:
        counted = [difference for difference in layers if difference.weight in COUNTS]
        others = [difference.layer.value for difference in counted if difference.layer is not Layer.APPLICATION]
        owner = next((difference.owner for difference in counted if difference.layer is Layer.APPLICATION), None)
        also = f", and {', '.join(others)} changed with it" if others else "; the executor around it did not change"
        return EffectCause(
            kind=CauseKind.MODEL,
            layer=Layer.APPLICATION,
            owner=owner,
            sentence=f"the weights are others: model drift{also}",
            experiment=f"run {contract} with the earlier weights on the present executor: the rest is the executor's",
        )
    return name_cause(layers, contract, BETWEEN_RESULTS, _named)


def on_another_machine(cause: EffectCause) -> EffectCause:
    """The same of results of two machines: what they differ by is no layer's, and stands beside what changed."""
    if cause.kind is CauseKind.NOTHING_RECORDED:
        said = "nothing that is recorded changed but the machine, which is another one: it is the cause, or something"
        return cause.model_copy(update={"sentence": f"{said} outside the record, or there is none"})
    likely = LIKELY if cause.sentence.endswith(LIKELY) else ""
    return cause.model_copy(update={"sentence": f"{cause.record}; the machine is another one as well{likely}"})


def strongest(layer: LayerDifference) -> list[FieldSuspect]:
    """The fields that give a layer its weight."""
    return [field for field in layer.fields if field.follows is None and field.weight is layer.weight]


def _named(layer: LayerDifference) -> str:
    fields = strongest(layer)
    shown = [f"{field.name} {_change(field)}" for field in fields[:2]]
    more = f" and {len(fields) - 2} more" if len(fields) > 2 else ""
    return ", ".join(shown) + more


def _change(field: FieldSuspect) -> str:
    keys = changed_keys(field.before, field.after)
    if isinstance(field.before, dict) and isinstance(field.after, dict):
        first = sorted(keys)[:1]
        moved = [f"{key} {brief(field.before.get(key))} → {brief(field.after.get(key))}" for key in first]
        return f"{', '.join(moved)}{f' and {len(keys) - 1} more' if len(keys) > 1 else ''}"
    return f"{brief(field.before)} → {brief(field.after)}"


def model_changed(a: Result, b: Result) -> bool:
    """Whether both recorded their weights' hash, and the two differ."""
    left, right = weights_of(a.executor), weights_of(b.executor)
    return left is not None and right is not None and left != right
