"""What an operator or a device kernel does, by its name: the only thing every trace carries."""

import re
from enum import StrEnum
from functools import lru_cache

from lynxbench.tables import read_table


class OperatorKind(StrEnum):
    """What the operator's own time (without the operators it calls) is spent on."""

    PRODUCT = "product"
    """Matrix products, convolutions, attention: arithmetic that may or may not be bound by it."""
    ELEMENTWISE = "elementwise"
    """One pass over its operands: could be merged with its neighbours."""
    REDUCTION = "reduction"
    NORMALISATION = "normalisation"
    """Several passes over rows: normalisation, softmax."""
    COPY = "copy"
    GATHER = "gather"
    ALLOCATION = "allocation"
    DISPATCH = "dispatch"
    """Views, wrappers, autograd nodes: no data is touched."""
    COMMUNICATION = "communication"
    SYNCHRONIZATION = "synchronization"
    COMPILED = "compiled"
    """A compiled region that shows no operators inside."""
    FOREIGN = "foreign"
    """An operator of someone's own."""


def _kind_of_word(words: dict[str, str]) -> dict[str, OperatorKind]:
    """Each word's kind; of a word that stands under several, the first."""
    table: dict[str, OperatorKind] = {}
    for kind, text in words.items():
        for word in text.split():
            table.setdefault(word, OperatorKind(kind))
    return table


_TABLE = read_table("attribute/read/operators.toml")
ONNX = "onnx::"
"""Before an ONNX operator's name, in traces made from ONNX Runtime's profile."""
ONNX_INTEGER_PRODUCTS: frozenset[str] = frozenset(_TABLE["onnx_integer_products"].split())
_ONNX_JUDGED = ONNX_INTEGER_PRODUCTS | frozenset(_TABLE["onnx_products"].split())
ONNX_PRODUCTS = _ONNX_JUDGED | frozenset(_TABLE["onnx_other_products"].split())
_VIEWS: frozenset[str] = frozenset(_TABLE["views"].split())
_TORCH = _kind_of_word(_TABLE["torch"]) | dict.fromkeys(_VIEWS, OperatorKind.DISPATCH)
_ONNX = dict.fromkeys(_ONNX_JUDGED, OperatorKind.PRODUCT) | _kind_of_word(_TABLE["onnx"])
_MATHS = frozenset({"aten", "prims", "quantized", "mkldnn", "mkl", "mkldnn_prepacked", "torchao", "onednn"})
_COMMUNICATION = re.compile(
    r"^(c10d|_c10d_functional|c10d_functional|gloo|nccl|mpi|ucc|symm_mem)\b|^record_param_comms"
)
_AUTOGRAD = re.compile(r"^(autograd::engine::|torch::autograd::|[A-Z]\w*Backward\d*$|struct torch::autograd)")
_COMPILED = re.compile(r"CompiledFxGraph|^inductor::|^TorchScript|^<forward op>|cpp_fused")
_BOOKKEEPING = re.compile(
    r"^(TorchDynamo|Torch-Compiled Region|CompiledFunction|Pregraph bytecode|AOTDispatcher|Optimizer\.|ProfilerStep"
    r"|step#|\[pl\]|detach_?$|## |Runtime|nn\.Module)"
)


def place_of_result(name: str) -> int | None:
    """Which argument of an operator of torch is the place for its result, where one is handed in."""
    space, _, short = name.partition("::")
    return GIVEN_RESULTS.get(short.partition(".")[0]) if space == "aten" else None


def is_view(name: str) -> bool:
    """Whether an operator of torch touches no data of its own, whatever its operands."""
    space, _, short = name.partition("::")
    return space == "aten" and short.partition(".")[0] in _VIEWS


@lru_cache(maxsize=65_536)
def operator_kind(name: str) -> OperatorKind:
    """The kind of an operator by its full name, `namespace::operator`."""
    if _COMMUNICATION.search(name):
        return OperatorKind.COMMUNICATION
    if _COMPILED.search(name):
        return OperatorKind.COMPILED
    if _AUTOGRAD.search(name) or _BOOKKEEPING.search(name):
        return OperatorKind.DISPATCH
    space, _, short = name.partition("::")
    if not short:
        return OperatorKind.FOREIGN
    if name.startswith(ONNX):
        return _onnx_kind(short)
    short = short.partition(".")[0]
    if short in _TORCH:
        return _TORCH[short]
    if space in _MATHS and ("attention" in short or "conv" in short or short.endswith(("_mm", "linear"))):
        return OperatorKind.PRODUCT
    if space in _MATHS:
        return OperatorKind.NORMALISATION if re.search(r"norm(?!al)", short) else OperatorKind.ELEMENTWISE
    return OperatorKind.FOREIGN


def _onnx_kind(short: str) -> OperatorKind:
    reduces = short.startswith(("Reduce", "Arg"))
    return _ONNX.get(short, OperatorKind.REDUCTION if reduces else OperatorKind.ELEMENTWISE)


# --- device kernels, where no operator with shapes stands behind them (graphs, compiled code) -----------------------

SKINNY_TILE = 16
"""A product whose output tile is at most this narrow serves a few rows: each weight is read for few operations."""

_RETURNED = re.compile(r"^std::enable_if<.*?>::type\s+")
"""A return type that hides brackets of its own before the kernel's name."""
_COLLECTIVE = re.compile(
    r"nccl|rccl|all[_-]?(reduce|gather|to[_-]?all)|reduce[_-]?scatter|collective-permute|multimem|deep_ep",
    re.IGNORECASE,
)
_ATTENTION = re.compile(r"flash|fmha|attention|sdpa|mha_", re.IGNORECASE)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|cublas|matmul|_mm_|conv(?!ert)|wgrad|dgrad|hgemm|sgemm|splitk|dot_kernel|marlin"
    r"|implicit_con|^Cijk_|(^|_)dot([._]\d+)?$",
    re.IGNORECASE,
)
_SKINNY = re.compile(r"gemv|splitk_?kv|split_?kv|dot_kernel|decode", re.IGNORECASE)
_TILE = re.compile(r"(\d{1,3})x(\d{1,3})")
_REDUCTION = re.compile(r"reduce|argmax|cumsum|scan|sort|topk", re.IGNORECASE)
_NORMALISATION = re.compile(r"norm(?!al)|softmax", re.IGNORECASE)
_GATHER = re.compile(r"gather|index|embedding|scatter", re.IGNORECASE)
_COPY = re.compile(r"copy|catarray|fill|memcpy|transpose", re.IGNORECASE)


@lru_cache(maxsize=65_536)
def kernel_kind(name: str) -> OperatorKind:
    """The kind of a kernel by its name alone."""
    plain = _RETURNED.sub("", name.replace("(anonymous namespace)", ""))
    short = plain.partition("(")[0]  # operands name types, not what is done
    for pattern, kind in _BY_NAME:
        if pattern.search(short):
            return kind
    return OperatorKind.ELEMENTWISE


def is_skinny(name: str) -> bool:
    """Whether a product's kernel serves so few rows that reading the weights bounds it."""
    if _SKINNY.search(name):
        return True
    tile = _TILE.search(name)
    return tile is not None and min(int(tile.group(1)), int(tile.group(2))) <= SKINNY_TILE


def is_attention(name: str) -> bool:
    """Whether a kernel multiplies activations with each other, and no weights."""
    return _ATTENTION.search(name) is not None


_MADE = re.compile(r"fill|zero|memset|ConstantOfShape|EyeLike|Range|Trilu", re.IGNORECASE)


def is_relocation(name: str) -> bool:
    """Whether a copy's data was somewhere in memory before; what is filled with a constant was not."""
    return _MADE.search(name) is None


_LAYOUT = re.compile(
    r"nchw_?to_?nhwc|nhwc_?to_?nchw|ncdhw_?to_?ndhwc|ndhwc_?to_?ncdhw|tensor_?transform|transpose_?nchw|im2col|col2im",
    re.IGNORECASE,
)


def is_layout(kernel: str) -> bool:
    """Whether a kernel only lays an operand out anew for the one that computes."""
    return _LAYOUT.search(kernel) is not None


_ORDERING = re.compile(r"sort|topk|unique|kthvalue|median|quantile|::mode$", re.IGNORECASE)


def is_ordering(operator: str) -> bool:
    """Whether an operator puts its operand in order, or a part of it."""
    return _ORDERING.search(operator) is not None


_HIDDEN, _NOT_HIDDEN = _TABLE["hidden"].split(), frozenset(_TABLE["not_hidden"].split())
_HIDDEN_NAMES = frozenset(word for word in _HIDDEN if not word.endswith("*"))
_HIDDEN_STARTS = tuple(word[:-1] for word in _HIDDEN if word.endswith("*"))
_DRAWN: frozenset[str] = frozenset(_TABLE["drawn"].split())
_FUNCTIONS: frozenset[str] = frozenset(_TABLE["functions"].split())
GIVEN_RESULTS = {word: int(place) for place, words in _TABLE["given_results"].items() for word in words.split()}
_PLAIN_SUMS = frozenset(
    {"sum", "mean", "nansum", "max", "min", "amax", "amin", "all", "any", "reducesum", "reducemean"}
)


def hides_work(operator: str) -> bool:
    """Whether what an operator of torch does is not told by how much it reads and writes."""
    space, _, short = operator.partition("::")
    short = short.partition(".")[0]
    if space not in _MATHS or short in _NOT_HIDDEN:
        return False
    return short in _HIDDEN_NAMES or short.startswith(_HIDDEN_STARTS) or "sparse" in short


def draws_numbers(operator: str) -> bool:
    """Whether an operator of torch fills its operand with random numbers."""
    space, _, short = operator.partition("::")
    return space in _MATHS and short.partition(".")[0] in _DRAWN


def is_measured(operator: str, kind: OperatorKind) -> bool:
    """Whether an operator does what ceilings are measured of: products of matrices, and plain passes over memory.

    Functions of each element, convolutions, attention, pooling and look-ups are none, but for those that say themselves
    that they are the slow way.
    """
    short = operator.partition("::")[2].partition(".")[0].lower()
    if "slow_" in short:
        return True
    if kind is OperatorKind.PRODUCT:
        return not ("conv" in short or "attention" in short or "cdist" in short)
    if kind is OperatorKind.REDUCTION:
        return short in _PLAIN_SUMS
    return kind in (OperatorKind.ELEMENTWISE, OperatorKind.COPY) and short not in _FUNCTIONS


def is_many_passes(operator: str) -> bool:
    """Whether an operator passes over its operands several times, so that their size does not tell its least work."""
    return is_ordering(operator) or "fft" in operator.lower()


_WHOLE_GRAPH = re.compile(r"^(CUDA graph|TensorRT engine$|\{ForeignNode\[|custom-call([._]\d+)?$|fusion([._]\d+)?$)")
"""What runs inside is not known."""
_BY_NAME: tuple[tuple[re.Pattern[str], OperatorKind], ...] = (
    (_WHOLE_GRAPH, OperatorKind.COMPILED),
    (_COLLECTIVE, OperatorKind.COMMUNICATION),
    (_ATTENTION, OperatorKind.PRODUCT),
    (_PRODUCT, OperatorKind.PRODUCT),
    (_NORMALISATION, OperatorKind.NORMALISATION),
    (_GATHER, OperatorKind.GATHER),
    (_COPY, OperatorKind.COPY),
    (_REDUCTION, OperatorKind.REDUCTION),
)
