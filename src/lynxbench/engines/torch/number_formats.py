"""What the engine knows of a precision: what it computes in, what it needs, how it is quantised.

A new precision is an entry of formats.toml and, where weights are stored in another way, a layer in linear.py or in
torchao_layers.py.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from lynxbench.engines.torch import linear, torchao_layers
from lynxbench.engines.torch.device import capability, set_float32_products
from lynxbench.errors import CannotRun
from lynxbench.model.precision import Precision
from lynxbench.tables import read_table

USUAL_BITS = 8
"""Of a quantised weight; results say it only where it is another, as older ones know no other."""
TORCHAO = "torchao"
LAYERS = {TORCHAO: torchao_layers}
"""Where layers are found that are not PyTorch's own."""


@dataclass(frozen=True, slots=True)
class Recipe:
    """How linear layers are quantised on one kind of device; `{engine}` is torch's library of quantised kernels."""

    layer: Callable[[Any, torch.dtype], linear.QuantisedLinear]
    words: str
    toolchain: str
    product: str
    """What multiplies, as a ceiling names it."""
    multiple: int = 1
    """Inner and outer sizes that its kernel accepts."""
    head: bool = True
    """Whether the output head is quantised too."""
    bits: float = USUAL_BITS
    """What a stored weight takes, with its part of a group's scale and zero point."""

    def accepts(self, name: str, linear: Any) -> bool:
        """Whether a layer of that name and size can be replaced."""
        fits = linear.in_features % self.multiple == 0 and linear.out_features % self.multiple == 0
        return fits and (self.head or "head" not in name)


@dataclass(frozen=True, slots=True)
class NumberFormat:
    """One precision."""

    dtype: torch.dtype = torch.float32
    """Of activations, and of whatever is not quantised."""
    capability: tuple[int, int] | None = None
    """First compute capability with such tensor-core inputs (CUDA programming guide, arithmetic instructions)."""
    kernels: str | None = None
    """What names of matrix kernels say of such inputs (cuBLAS, CUTLASS; nvjet: t for bf16, h fp16, q e4m3, s fp32)."""
    quantised: Mapping[str, Recipe] = field(default_factory=dict)
    """By kind of device, or by the library that does it there, where linear layers are stored narrower."""
    unsupported: str = ""
    """Why no device executes it here."""

    def names(self, kernel: str) -> bool:
        """Whether a matrix kernel's name tells of such inputs."""
        return self.kernels is not None and re.search(self.kernels, kernel, re.IGNORECASE) is not None


def _format(keys: dict[str, Any]) -> NumberFormat:
    return NumberFormat(
        getattr(torch, keys.get("dtype", "float32")),
        tuple(keys["capability"]) if "capability" in keys else None,
        keys.get("kernels"),
        {
            device: Recipe(**(recipe | {"layer": getattr(LAYERS.get(device, linear), recipe["layer"])}))
            for device, recipe in keys.get("quantised", {}).items()
        },
        keys.get("unsupported", ""),
    )


FORMATS: dict[Precision, NumberFormat] = {
    Precision(name): _format(keys) for name, keys in read_table("engines/torch/formats.toml").items()
}


@dataclass(frozen=True, slots=True)
class Prepared:
    """What was done to the model, in words and in numbers."""

    compute_dtype: torch.dtype
    quantisation: str
    toolchain: str
    float32_products: str
    quantised_parameters: int
    total_parameters: int
    quantised_bits: float = USUAL_BITS


def compute_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """The format of activations, and of whatever is not quantised."""
    if FORMATS[precision].quantised and device.type == "cuda":
        return torch.bfloat16  # what tensor cores pair with 8-bit inputs; fp32 would hide the gain
    return FORMATS[precision].dtype


def recipe_for(precision: Precision, device: torch.device) -> Recipe | None:
    """How linear layers are quantised on the device; None for precisions that are no matter of storage."""
    recipes = FORMATS[precision].quantised
    by_library = recipes.get(TORCHAO) if device.type == "cuda" else None
    if by_library is not None and torchao_layers.torchao_version() is not None:
        return by_library
    if recipes and device.type not in recipes:
        if by_library is not None:
            raise CannotRun(f"{precision} needs torchao: pip install 'lynxbench[quant]'")
        known = ", ".join("cuda" if word == TORCHAO else word for word in recipes)
        raise CannotRun(f"{precision} has no kernels for {device.type} here (only for {known})")
    recipe = recipes.get(device.type)
    if recipe is not None and recipe.layer is linear.Int8DynamicCpu:
        linear.choose_quantised_engine()
    return recipe


def product_recipe(precision: Precision, device: torch.device) -> Recipe | None:
    """What multiplies bare operands at this precision: PyTorch's own kernel, whichever library stores the weights."""
    recipes = FORMATS[precision].quantised
    return recipes.get(device.type) if TORCHAO in recipes and device.type == "cuda" else recipe_for(precision, device)


def supports(device: torch.device, precision: Precision) -> bool | None:
    """Whether the device's matrix units take such inputs; None where that is not a matter of the capability."""
    needed = FORMATS[precision].capability
    # ROCm's torch calls its devices cuda too, and numbers them otherwise: gfx942 says (9, 4).
    if device.type != "cuda" or needed is None or torch.version.hip is not None:
        return None
    return capability(device) >= needed


def prepare(model: Any, precision: Precision, device: torch.device) -> Prepared:
    """Quantise the model in place where the precision asks for it, and set the flags it runs under."""
    dtype = compute_dtype(precision, device)
    products = set_float32_products(device, precision)
    total = sum(parameter.numel() for parameter in model.parameters())
    recipe = recipe_for(precision, device)
    if recipe is None:
        return Prepared(dtype, "none", "", products, 0, total)
    quantised, left = _replace_linears(model, recipe, dtype)
    others = f"embeddings, norms and attention products in {str(dtype).removeprefix('torch.')}"
    stored = recipe.words.format(group=torchao_layers.GROUP)
    words = f"{stored}; {others}" + (f"; left as they were: {', '.join(left)}" if left else "")
    by_own_kernel = device.type == "cuda" and torchao_layers.has_one_row_kernel()
    toolchain = recipe.toolchain.format(
        engine=linear.name_quantised_engine(),
        rows=linear.PACKED_ROWS,
        few=torchao_layers.FEW_ROWS,
        torchao=torchao_layers.torchao_version(),
        one_row="; a single row by the engine's own Triton kernel" if by_own_kernel else "",
    )
    return Prepared(dtype, words, toolchain, products, quantised, total, recipe.bits)


def _replace_linears(model: Any, recipe: Recipe, dtype: torch.dtype) -> tuple[int, list[str]]:
    """How many parameters are quantised now, and the layers that were left as they were."""
    quantised, left = 0, set()
    for name, parent in list(model.named_modules()):
        for child_name, child in list(parent.named_children()):
            if type(child) is not nn.Linear:
                continue
            if recipe.accepts(f"{name}.{child_name}", child):
                setattr(parent, child_name, recipe.layer(child, dtype))
                quantised += child.weight.numel()
            else:
                left.add(child_name)
    return quantised, sorted(left)
