"""GPU names: lookalikes stay apart, ambiguous names are refused, ids mean themselves."""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.gpus import (
    Gpu,
    UnknownGpu,
    catalogue,
    family,
    gpu,
    resolve,
    split_description,
    vram_fits,
)
from tests.shared import shared

CANONICAL = {
    "RTX 6000 Ada": {"rtx-6000-ada"},
    "RTX A6000": {"rtx-a6000"},
    "Quadro RTX 6000": {"quadro-rtx-6000"},
    "RTX PRO 6000 Blackwell": {"rtx-pro-6000"},
    "RTX PRO 6000": {"rtx-pro-6000"},
    "H100 NVL": {"h100-nvl"},
    "H100 SXM": {"h100-sxm"},
    "H100 PCIe": {"h100-pcie"},
    "A100 40GB": {"a100-40gb-sxm", "a100-40gb-pcie"},
    "A100 80GB": {"a100-80gb-sxm", "a100-80gb-pcie"},
    "L40": {"l40"},
    "L40S": {"l40s"},
    "L4": {"l4"},
    "RTX 4090 D": {"rtx-4090d"},
    "RTX 4090": {"rtx-4090"},
}
"""Our ids for the names of the case file."""


def name_cases() -> list[dict[str, str]]:
    with shared("cases", "b02_gpu_names.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def cards_meant(raw: str) -> set[str]:
    """Resolve a source's text; a name that leaves a choice gives all cards it may mean.

    A source whose name leaves the form factor open (Google's ``nvidia-a100-80gb``) is settled by
    that provider's own table, so here only the set counts.
    """
    _, name, vram_gb = split_description(raw)
    for text in (raw, name):
        try:
            return {resolve(text, vram_gb=vram_gb).id}
        except UnknownGpu as unknown:
            if unknown.reason == "ambiguous_gpu":
                return set(family(text))
    return set()


def test_recorded_names_lead_to_the_right_card_and_to_no_lookalike() -> None:
    cases = name_cases()
    assert len(cases) == 14
    for case in cases:
        meant = cards_meant(case["raw"])
        right = CANONICAL[case["canonical"]]
        assert meant, case
        assert meant & right, case
        if case["raw"] != "nvidia-tesla-a100":  # Google's name for the 40 GB card alone
            assert meant <= right, case
            for other in case["must_differ_from"].split("; "):
                assert not meant & CANONICAL[other], case
        for card in (gpu(i) for i in right):
            assert card.vram_gb == Decimal(case["vram_gb_marketing"]), case
            assert card.architecture.startswith(case["architecture"]), case


def test_a_name_of_both_memory_sizes_is_refused_until_the_memory_is_known() -> None:
    with pytest.raises(UnknownGpu) as caught:
        resolve("nvidia-tesla-a100")
    assert caught.value.reason == "ambiguous_gpu"
    with pytest.raises(UnknownGpu) as caught:
        resolve("nvidia-tesla-a100", vram_gb=Decimal(40))
    assert caught.value.reason == "ambiguous_gpu"
    assert resolve("A100 SXM4", vram_gb=Decimal(40)).id == "a100-40gb-sxm"


@pytest.mark.parametrize(
    "name",
    ["A100", "H100", "H200", "V100", "GH200", "A100 80GB", "A100 40GB", "A100 SXM", "RTX 4090"],
)
def test_a_bare_family_name_is_refused(name: str) -> None:
    with pytest.raises(UnknownGpu, match="could be") as caught:
        resolve(name)
    assert caught.value.reason == "ambiguous_gpu"
    assert len(family(name)) > 1


@pytest.mark.parametrize(
    ("name", "vram_gb", "card"),
    [
        ("H100", "94", "h100-nvl"),
        ("V100", "16", "v100-16gb"),
        ("V100", "32", "v100-32gb"),
        ("A100 SXM4", "80", "a100-80gb-sxm"),
        ("A100 PCIe", "40", "a100-40gb-pcie"),
        ("RTX 4090", "24", "rtx-4090"),
        ("RTX 4090", "47.99", "rtx-4090-48gb"),
        ("GH200", "96", "gh200-96gb"),
        ("B300", "262", "b300"),
        ("B300", "288", "b300"),
        ("B200", "183", "b200"),
        ("B200", "192", "b200"),
    ],
)
def test_stated_memory_decides_among_cards_of_one_name(name: str, vram_gb: str, card: str) -> None:
    assert resolve(name, vram_gb=Decimal(vram_gb)).id == card


@pytest.mark.parametrize(
    ("name", "vram_gb"),
    [("L40S", "24"), ("L4", "48"), ("H100 SXM", "94"), ("A100 SXM4", "60"), ("RTX 4090", "80")],
)
def test_memory_that_contradicts_the_name_is_refused(name: str, vram_gb: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        resolve(name, vram_gb=Decimal(vram_gb))
    assert caught.value.reason == "vram_mismatch"


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb",
        "A100 MIG 3g.20gb",
        "H100 1g.10gb",
    ],
)
def test_a_slice_is_not_a_card(name: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        resolve(name)
    assert caught.value.reason == "mig_slice"


@pytest.mark.parametrize("name", ["", "   ", "RTX", "GPU", "nvidia", "6000", "RTX 6000", "L", "B2"])
def test_a_fragment_is_no_card(name: str) -> None:
    with pytest.raises(UnknownGpu) as caught:
        resolve(name)
    assert caught.value.reason == "unknown_gpu"


@pytest.mark.parametrize("card", catalogue().values(), ids=lambda card: str(card.id))
def test_every_id_means_itself(card: Gpu) -> None:
    assert resolve(card.id) is card
    assert gpu(card.id) is card
    assert resolve(card.id, vram_gb=card.vram_gb) is card
    assert resolve(card.id, vram_gb=card.vram_usable_gib) is card
    assert family(card.id) == (card.id,)


def test_an_id_that_does_not_exist_is_refused() -> None:
    with pytest.raises(UnknownGpu, match="no GPU with id"):
        gpu("h100")


REASONS = {"unknown_gpu", "ambiguous_gpu", "vram_mismatch", "mig_slice"}


def answer(name: str, vram_gb: Decimal | None = None) -> str:
    """The card's id, or the reason of the refusal."""
    try:
        return resolve(name, vram_gb=vram_gb).id
    except UnknownGpu as unknown:
        return unknown.reason


def spelling(name: str) -> str:
    """Independent fold: only maker words and separators may differ between spellings."""
    words = re.sub(r"[^a-z0-9]+", " ", name.lower()).split()
    makers = {"nvidia", "geforce", "amd", "instinct", "intel", "tesla", "generation"}
    return "".join(word for word in words if word not in makers)


def test_no_alias_of_one_card_reads_like_another_card_unless_it_is_a_refused_family() -> None:
    owners: dict[str, set[str]] = defaultdict(set)
    for card in catalogue().values():
        for alias in (card.id, card.name, *card.aliases):
            owners[spelling(alias)].add(card.id)
    shared_spellings = {text: ids for text, ids in owners.items() if len(ids) > 1}
    for text in shared_spellings:
        with pytest.raises(UnknownGpu) as caught:
            resolve(text)
        assert caught.value.reason == "ambiguous_gpu", text


def test_every_alias_leads_to_its_card_or_is_refused_as_a_family_of_it() -> None:
    for card in catalogue().values():
        for alias in (card.name, *card.aliases):
            found = answer(alias)
            assert found in {card.id, "ambiguous_gpu"}, alias
            assert card.id in family(alias), alias


LOOKALIKES = [
    ("l4", "l40", "l40s", "l20", "t4", "p4", "p40", "a40"),
    ("b200", "gb200", "b300", "gb300", "gh200-96gb", "gh200-144gb", "h200-sxm", "h200-nvl"),
    ("h100-sxm", "h100-pcie", "h100-nvl", "h800", "h20"),
    ("a100-40gb-sxm", "a100-40gb-pcie", "a100-80gb-sxm", "a100-80gb-pcie", "a10", "a10g", "a16"),
    ("rtx-6000-ada", "rtx-a6000", "quadro-rtx-6000", "rtx-pro-6000"),
    ("rtx-4090", "rtx-4090d", "rtx-4090-48gb", "rtx-4080"),
]


@pytest.mark.parametrize("group", LOOKALIKES, ids=lambda group: str(group[0]))
def test_lookalikes_share_no_name(group: tuple[str, ...]) -> None:
    names: dict[str, str] = {}
    for gpu_id in group:
        card = gpu(gpu_id)
        for alias in (card.id, card.name, *card.aliases):
            found = answer(alias)
            assert found in {gpu_id, "ambiguous_gpu"}, alias
            if found == gpu_id and alias != gpu_id:
                assert names.setdefault(spelling(alias), gpu_id) == gpu_id, alias


@given(st.sampled_from(sorted(catalogue())), st.data())
def test_case_and_separators_do_not_change_the_card(gpu_id: str, data: st.DataObject) -> None:
    card = gpu(gpu_id)
    name = data.draw(st.sampled_from([card.id, card.name]))
    changed = data.draw(st.sampled_from([name.upper(), name.lower(), f"  {name} ", name.title()]))
    separator = data.draw(st.sampled_from([" ", "_", "-", "  "]))
    assert resolve(re.sub(r"[ _-]", separator, changed)) is card


@given(st.text(max_size=40), st.none() | st.decimals(1, 500, allow_nan=False, places=1))
def test_any_text_is_one_card_or_refused_with_a_reason(name: str, vram_gb: Decimal | None) -> None:
    found = answer(name, vram_gb)
    if found not in REASONS:
        assert vram_gb is None or vram_fits(gpu(found), vram_gb)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("8x H100 SXM 80GB", (8, "H100 SXM", Decimal(80))),
        ("16 x B200 (180 GB)", (16, "B200", Decimal(180))),
        ("1× L40S", (1, "L40S", None)),
        ("RTX PRO 6000 96GB", (None, "RTX PRO 6000", Decimal(96))),
        ("H100", (None, "H100", None)),
        ("", (None, "", None)),
    ],
)
def test_a_description_splits_into_count_name_and_memory(
    text: str, parts: tuple[int | None, str, Decimal | None]
) -> None:
    assert split_description(text) == parts


def test_every_card_states_plausible_facts() -> None:
    for card in catalogue().values():
        assert 1 <= card.vram_gb <= 512, card.id
        assert 0 < card.vram_usable_gib <= card.vram_gb, card.id
        assert card.bandwidth_gb_s is None or 10 <= card.bandwidth_gb_s <= 20_000, card.id
        assert re.fullmatch(r"[a-z0-9-]+", card.id), card.id
        assert card.source, card.id
