"""Traces of plans that are known: what the plan predicts, as the kernels that PyTorch and NCCL write for it on an H100,
with one part of them slowed; the part and its seconds are found again.
"""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest

from commands import asked
from meshwright.cost.step import estimate_each
from meshwright.layout.plan import Plan
from meshwright.specs.inputs import Inputs
from meshwright.specs.reading.model import read_model
from meshwright.validation.profile.parts import PartOfStep, StepParts, step_parts
from meshwright.validation.profile.spans import AXES, read_spans
from strategies import llama_8b, question
from traced import collective, event, written

PIECES = 24
"""Layers, say, of a pass: every part is cut into so many kernels."""
KERNELS = {
    "products": (
        "nvjet_tst_256x128_64x4_1x2_h_bz_coopA_NTT",
        "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_TNN",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off",
        "void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cutlass::gemm::GroupProblemShape>>",
    ),
    "attention": (
        "cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7_64x128x128_4x1x1_cga1x1x1_kernel0_0",
        "cudnn_generated_fort_native_sdpa_sm90_flash_bprop_wgmma_f16_knob_26_64x64x128_1x4x1_cga1x1x1_kernel0_0",
        "void cutlass::device_kernel<flash::enable_sm90_or_later<flash::FlashAttnFwdSm90<flash::Mainloop>>>",
    ),
    "elementwise": (
        "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<c10::BFloat16>>",
        "void transformer_engine::normalization::rmsnorm_fwd_tuned_kernel<Kernel_traits>",
        "void at::native::(anonymous namespace)::CatArrayBatchedCopy_vectorized<at::native::OpaqueType<2u>, 4>",
        "triton_red_fused__fused_rms_norm_backward_add_mul_2",
    ),
    "optimizer": (
        "void multi_tensor_apply_kernel<TensorListMetadata<4>, transformer_engine::AdamFunctorMaster<__nv_bfloat16>>",
        "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>",
    ),
}
NCCL = {
    "tp": ("TENSOR_MODEL_PARALLEL_GROUP", "ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL"),
    "cp": ("CONTEXT_PARALLEL_GROUP", "ncclDevKernel_SendRecv"),
    "ep": ("EXPERT_MODEL_PARALLEL_GROUP", "ncclDevKernel_SendRecv"),
    "pp": ("PIPELINE_MODEL_PARALLEL_GROUP", "ncclDevKernel_SendRecv"),
    "dp": ("DATA_PARALLEL_GROUP_WITH_CP", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL"),
}
PLANS = {
    "tensor": (llama_8b(), Plan(tp=4, sp=True, dp=2, zero=1, num_microbatches=32)),
    "pipeline": (llama_8b(), Plan(tp=2, sp=True, pp=2, dp=2, zero=1, num_microbatches=32)),
    "sharded": (llama_8b(), Plan(dp=8, zero=1, num_microbatches=8)),
    "experts": (read_model("mixtral-8x7b"), Plan(ep=8, dp=8, zero=1, num_microbatches=8)),
}
SLOWER = 1.5


def asked_of(name: str) -> tuple[Plan, Inputs]:
    model, plan = PLANS[name]
    return plan, question(model, "1x8:h100", global_batch=64, sequence_length=4096)


def compared(path: Path, plan: Plan, inputs: Inputs) -> StepParts:
    (estimate,) = estimate_each([plan], inputs)
    return step_parts(read_spans(path, plan, inputs), estimate, inputs)


def known(folder: Path, plan: Plan, inputs: Inputs) -> dict[str, PartOfStep]:
    """What is predicted of every part."""
    path = folder / "any.json"
    path.write_text(written([event("kernel", KERNELS["products"][0], 0, 1)]))
    return {part.name: part for part in compared(path, plan, inputs).parts}


def trace_of(parts: dict[str, PartOfStep], slowed: str) -> str:
    """Two steps of a plan: the kernels of compute one after another on one stream, collectives on others, what of them
    is hidden beside the products.
    """
    events: list[dict[str, Any]] = []
    at, names = 0.0, {part: itertools.cycle(each) for part, each in KERNELS.items()}
    for step in range(2):
        first = begin = at
        for _ in range(PIECES):
            for name, part in parts.items():
                piece = 1000 * (part.predicted_s or 0.0) * (SLOWER if name == slowed else 1.0) / PIECES
                hidden = 1000 * (part.predicted_overlapped_s or 0.0) / PIECES
                if name in AXES:
                    description, kernel = NCCL[name]
                    kernel = f"{kernel}(ncclDevKernelArgsStorage<4096ul>)"
                    events += [collective(description, [0, 1], at, at + piece, kernel)] if piece else []
                    under = [collective(description, [0, 1], begin, begin + hidden, kernel)] if hidden else []
                    events += [each | {"tid": 30 + list(NCCL).index(name)} for each in under]
                elif name in names:
                    events.append(event("kernel", next(names[name]), at, at + piece))
                    begin = at if name == "products" else begin
                at += piece
        marks = {"gpu_user_annotation": 7, "user_annotation": 1}
        events += [event(kind, f"ProfilerStep#{step + 5}", first, at, stream) for kind, stream in marks.items()]
    return written(events)


@pytest.mark.parametrize("name", PLANS)
def test_a_run_as_it_is_predicted_differs_nowhere(tmp_path: Path, name: str) -> None:
    plan, inputs = asked_of(name)
    path = tmp_path / "trace.json"
    path.write_text(trace_of(known(tmp_path, plan, inputs), slowed=""))
    step = compared(path, plan, inputs)
    assert step.steps == 2
    for part in step.parts:
        assert part.difference_s == pytest.approx(0, abs=1e-6 * step.step_s), part


@pytest.mark.parametrize(
    ("name", "slowed"),
    [
        *(("tensor", part) for part in ("products", "attention", "elementwise", "optimizer", "tp", "dp", "idle")),
        *(("pipeline", part) for part in ("products", "pp", "tp")),
        *(("sharded", part) for part in ("elementwise", "dp")),
        *(("experts", part) for part in ("products", "ep")),
    ],
)
def test_the_part_that_is_slower_is_named_with_its_seconds(tmp_path: Path, name: str, slowed: str) -> None:
    plan, inputs = asked_of(name)
    parts, path = known(tmp_path, plan, inputs), tmp_path / "trace.json"
    path.write_text(trace_of(parts, slowed))
    largest = compared(path, plan, inputs).largest
    assert largest is not None
    assert largest.name == slowed
    assert largest.difference_s == pytest.approx((SLOWER - 1) * (parts[slowed].predicted_s or 0.0), rel=1e-3)


def test_the_command_names_the_part_of_a_launch_file(tmp_path: Path) -> None:
    """A launch file that Meshwright wrote, a log of it and a trace of it: one command says what is slower."""
    plan, inputs = asked_of("tensor")
    parts = known(tmp_path, plan, inputs)
    (tmp_path / "trace.json").write_text(trace_of(parts, "tp"))
    (estimate,) = estimate_each([plan], inputs)
    slower = estimate.step_time_s + (SLOWER - 1) * (parts["tp"].predicted_s or 0.0)
    lines = [f"iteration {each}/ 100 | elapsed time per iteration (ms): {1000 * slower:.1f} |" for each in range(1, 30)]
    (tmp_path / "run.log").write_text("\n".join(lines))
    question_of_it = ("--model", "llama-3.1-8b", "--cluster", "1x8:h100", "--seq-len", "4096", "--global-batch", "64")
    options = ("--tp", "4", "--dp", "2", "--zero", "1", "--micro-batch", "1", "--json")
    (tmp_path / "plan.json").write_text(asked("explain", *question_of_it, *options).out)
    assert asked("launch", str(tmp_path / "plan.json"), "--out", str(tmp_path / "run")).code == 0
    files = ("--from", str(tmp_path / "run"), "--trace", str(tmp_path / "trace.json"), "--cluster", "1x8:h100")
    document = json.loads(asked("runs", str(tmp_path / "run.log"), *files, "--json").out)
    differences = {each["name"]: each["measured_s"] - each["predicted_s"] for each in document["trace"]["parts"]}
    assert max(differences, key=lambda name: abs(differences[name])) == "tp"
