"""Launch commands: whatever is asked, only known flags, plain integers, one line of ASCII."""

from __future__ import annotations

import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.gpus import gpu
from optimizer import models
from optimizer.engine_flags import SGLANG_VERSION, VLLM_VERSION, check_command, flags
from optimizer.launch import LaunchRequest, sglang_command, vllm_command
from optimizer.measure import benchmark_commands

NAMES = sorted(models.catalogue())


def accepted(name: str, card: str, **values: object) -> LaunchRequest | None:
    try:
        return LaunchRequest(model=models.find(name), gpu=gpu(card), **values)  # type: ignore[arg-type]
    except InputError:
        return None


@given(
    name=st.sampled_from(NAMES),
    card=st.sampled_from(["h100-sxm", "l4", "mi300x", "rtx-4090", "t4"]),
    weights=st.sampled_from([None, "bf16", "fp8", "awq", "gptq", "int8"]),
    kv=st.sampled_from(["bf16", "fp8"]),
    context=st.one_of(st.none(), st.integers(256, 200_000)),
    users=st.one_of(st.none(), st.integers(1, 512)),
    tp=st.sampled_from([1, 2, 4, 8]),
    first=st.booleans(),
)
def test_every_command_uses_known_flags_and_can_be_pasted(
    name: str, card: str, weights: str | None, kv: str, context: int | None, users: int | None,
    tp: int, first: bool,
) -> None:  # fmt: skip
    request = accepted(
        name, card, weights=weights, kv=kv, context=context, users=users, tensor_parallel=tp,
        first_token=first,
    )  # fmt: skip
    if request is None:
        return
    for command in (vllm_command(request), sglang_command(request)):
        for text in (command.plain, command.container):
            assert text.isascii()
            assert "\n" not in text
            assert not re.search(r"\d,\d{3}|\de\+?\d", text), "plain integers"
        assert check_command(command.plain) == ()
        words = shlex.split(command.plain)
        assert len([word for word in words if word.startswith("--")]) == len(
            {word for word in words if word.startswith("--")}
        ), "no flag twice"
        assert command.version in {VLLM_VERSION, SGLANG_VERSION}
        inside = command.container[command.container.index(command.plain.split(" ", 1)[0]) :]
        assert command.plain.split(" ", 2)[-1].split()[0] in inside


def test_no_flag_repeats_a_default() -> None:
    request = LaunchRequest(
        model=models.find("Llama-3.1-8B-Instruct"), gpu=gpu("h100-sxm"), context=131_072,
        utilization=0.92,
    )  # fmt: skip
    plain = vllm_command(request).plain
    assert plain == "vllm serve meta-llama/Llama-3.1-8B-Instruct"


def test_a_context_beyond_the_native_limit_gets_its_rope_override_and_a_warning() -> None:
    request = LaunchRequest(
        model=models.find("Qwen2.5-7B-Instruct"), gpu=gpu("h100-sxm"), context=131_072
    )
    command = vllm_command(request)
    assert '"factor": 4.0' in command.plain
    assert '"original_max_position_embeddings": 32768' in command.plain
    assert any("YaRN" in line for line in command.warnings)
    assert check_command(command.plain) == ()


def test_weights_of_unknown_name_stop_the_shell_with_a_reason() -> None:
    request = LaunchRequest(
        model=models.find("Mistral-7B-Instruct-v0.3"), gpu=gpu("l4"), weights="gptq"
    )
    assert "${QUANTIZED_MODEL:?set it" in vllm_command(request).plain


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("vllm serve m --max-model-len 128k", "must be int"),
        ("vllm serve m --no-such-flag", "not a flag"),
        ("vllm serve m --kv-cache-dtype", "must be"),
        ("vllm serve 'm", "cannot be read by a shell"),
        ("docker run x", "does not start like"),
    ],
)
def test_the_check_finds_what_an_engine_would_refuse(line: str, said: str) -> None:
    assert any(said in problem for problem in check_command(line))


@given(
    inputs=st.integers(1, 100_000), outputs=st.integers(1, 10_000), users=st.integers(1, 512),
    overlap=st.floats(0, 1),
)  # fmt: skip
def test_every_benchmark_command_is_valid(
    inputs: int, outputs: int, users: int, overlap: float
) -> None:
    for line in benchmark_commands(
        "org/model", input_tokens=inputs, output_tokens=outputs, users=users, overlap=overlap
    ):
        if line.startswith(("vllm ", "python ")):
            assert check_command(line) == ()


def test_every_flag_of_the_table_says_its_kind() -> None:
    for engine in ("vllm", "sglang"):
        for flag in flags(engine).values():
            assert flag.kind in {"int", "float", "str", "choice", "json", "switch"}
            assert bool(flag.choices) == (flag.kind == "choice")


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"context": 0}, "context 0"),
        ({"users": 0}, "users 0"),
        ({"tensor_parallel": 3}, "tensor_parallel 3"),
        ({"kv": "int3"}, "kv dtype 'int3'"),
        ({"repository": "two words"}, "one plain name"),
        ({"utilization": 1.5}, r"utilization 1\.5"),
    ],
)
def test_what_no_server_could_start_with_is_refused(values: dict[str, object], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LaunchRequest(
            model=models.find("Llama-3.1-8B-Instruct"),
            gpu=gpu("l4"),
            **values,  # type: ignore[arg-type]
        )
