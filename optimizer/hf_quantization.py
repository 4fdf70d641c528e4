"""Which weight format a Hugging Face config declares."""

from __future__ import annotations

from dataclasses import dataclass

from core.errors import InputError
from optimizer.hf_reader import ConfigReader

_INT4_BITS, _BYTE_BITS = 4, 8
_KNOWN = "fp8, fbgemm_fp8, awq, gptq, compressed-tensors, modelopt, mxfp4, bitsandbytes"


@dataclass(frozen=True, slots=True)
class DeclaredFormat:
    """A name of ``weights.FORMATS`` and the group size, where the config states one."""

    name: str
    group_size: int | None = None


def weight_format_of(reader: ConfigReader) -> DeclaredFormat:
    """Return the format that ``quantization_config`` declares, else that of ``torch_dtype``.

    Raises:
        InputError: a method or a width of bits that is not known.
    """
    section = reader.section("quantization_config") or reader.section("compression_config")
    if section is None:
        dtype = reader.text("torch_dtype", "dtype").removeprefix("torch.")
        return DeclaredFormat("fp16" if dtype == "float16" else "bf16")
    method = section.text("quant_method").lower().replace("_", "-")
    if method in {"fp8", "fbgemm-fp8"}:
        return DeclaredFormat("fp8-block" if section.has("weight_block_size") else "fp8")
    if method in {"awq", "gptq"}:
        return _integer(method, section)
    if method == "mxfp4":
        return DeclaredFormat("mxfp4")
    if method == "bitsandbytes":
        return DeclaredFormat("bnb-nf4" if section.flag("load_in_4bit") else "int8")
    if method.startswith("modelopt"):
        return _modelopt(section)
    if method == "compressed-tensors":
        return _compressed_tensors(section)
    raise InputError(
        f"config: quantization_config.quant_method is {method!r}; known are {_KNOWN}:"
        " give the weight format yourself"
    )


def _integer(method: str, section: ConfigReader) -> DeclaredFormat:
    bits = section.need("bits", "w_bit")
    if bits == _BYTE_BITS and method == "gptq":
        return DeclaredFormat("int8")
    if bits != _INT4_BITS:
        raise InputError(f"config: quantization_config.bits is {bits}; {method} is known with 4")
    return DeclaredFormat(method, _group_size(section))


def _group_size(section: ConfigReader) -> int | None:
    """A stated group size; -1 (one scale per row) costs less than the usual group, which stands."""
    size = section.signed("group_size", "q_group_size")
    if size is None or size == -1:
        return None
    if size < 1:
        raise InputError(f"config: quantization_config.group_size is {size}; use -1 or 1 and more")
    return size


def _modelopt(section: ConfigReader) -> DeclaredFormat:
    algorithm = section.text("quant_algo")
    nested = section.section("quantization")
    if not algorithm and nested is not None:
        algorithm = nested.text("quant_algo")
    names = {"FP8": "fp8", "NVFP4": "nvfp4", "W4A16_AWQ": "awq", "W4A8_AWQ": "awq"}
    try:
        return DeclaredFormat(names[algorithm.upper()])
    except KeyError:
        raise InputError(
            f"config: quantization_config.quant_algo is {algorithm!r}; known are {', '.join(names)}"
        ) from None


def _compressed_tensors(section: ConfigReader) -> DeclaredFormat:
    groups = section.section("config_groups")
    first = groups and next(
        (group for name in groups.names() if (group := groups.section(name)) is not None), None
    )
    weights = first.section("weights") if first else None
    if weights is None:
        raise InputError("config: quantization_config.config_groups has no weights; add them")
    bits, kind = weights.need("num_bits"), weights.text("type")
    if bits == _BYTE_BITS:
        return DeclaredFormat("fp8" if kind == "float" else "int8")
    if bits == _INT4_BITS and kind == "float":
        return DeclaredFormat("nvfp4")
    if bits == _INT4_BITS:
        attention_stays = any("attn" in str(name) for name in section.items("ignore") or ())
        name = "int4" if attention_stays and weights.flag("symmetric", default=True) else "gptq"
        return DeclaredFormat(name, _group_size(weights))
    raise InputError(f"config: quantization_config weights of {bits} bits are not known; 4 or 8")
