"""Card names with form factors and memory, as neoclouds write them."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.gpus import UnknownGpu, catalogue
from pricing.cards import card_of


@pytest.mark.parametrize(
    ("name", "vram_gb", "form", "card"),
    [
        ("NVIDIA GeForce RTX 4090 PCIe 24GB", None, "", "rtx-4090"),
        ("NVIDIA H100 SXM5 80GB", None, "", "h100-sxm"),
        ("NVIDIA L40S PCIe 48GB", None, "", "l40s"),
        ("A100 80GB PCIe", None, "", "a100-80gb-pcie"),
        ("H100 SXM 80GB", None, "", "h100-sxm"),
        ("RTX A5000", None, "", "rtx-a5000"),
        ("V100 SXM2 32GB", None, "", "v100-32gb"),
        ("H100-PCIe", 80, "", "h100-pcie"),
        ("H100", 80, "pcie", "h100-pcie"),
        ("H100 sxm5", 80, "sxm5", "h100-sxm"),
        ("A100", 80, "sxm4", "a100-80gb-sxm"),
        ("A100", 40, "pcie", "a100-40gb-pcie"),
        ("H200", 141, "sxm5", "h200-sxm"),
        ("B200", 180, "sxm6", "b200"),
        ("MI300X", 192, "oam", "mi300x"),
        ("A6000", 48, "pcie", "rtx-a6000"),
        ("H100_nvl", 94, "", "h100-nvl"),
    ],
)
def test_a_name_with_its_form_factor_is_one_card(
    name: str, vram_gb: int | None, form: str, card: str
) -> None:
    stated = None if vram_gb is None else Decimal(vram_gb)
    assert card_of(name, vram_gb=stated, form=form).id == card


@pytest.mark.parametrize(
    ("name", "vram_gb", "form", "reason"),
    [
        ("H100", 80, "", "ambiguous_gpu"),
        ("A100 PCIe", None, "", "ambiguous_gpu"),
        ("H100 SXM5", 94, "", "vram_mismatch"),
        ("L40S", 48, "sxm5", "unknown_gpu"),
        ("MI300X", 192, "pcie", "unknown_gpu"),
        ("L40X PCIe 48GB", None, "", "unknown_gpu"),
        ("B200 MIG 1g.24gb", 24, "", "mig_slice"),
        ("", None, "", "unknown_gpu"),
    ],
)
def test_what_is_not_one_card_is_refused_by_reason(
    name: str, vram_gb: int | None, form: str, reason: str
) -> None:
    stated = None if vram_gb is None else Decimal(vram_gb)
    with pytest.raises(UnknownGpu) as refused:
        card_of(name, vram_gb=stated, form=form)
    assert refused.value.reason == reason


@given(st.text(max_size=40), st.text(max_size=6))
def test_any_text_is_a_card_or_unknown(name: str, form: str) -> None:
    with suppress(UnknownGpu):
        assert card_of(name, form=form).id in catalogue()


@pytest.mark.parametrize("card", sorted(catalogue()))
def test_every_id_means_itself(card: str) -> None:
    assert card_of(card, vram_gb=catalogue()[card].vram_gb).id == card
