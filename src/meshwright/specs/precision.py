"""Precision: a recipe of number formats: what products run in, what quantising costs, what is kept beside."""

from __future__ import annotations

from functools import cache, cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple, Self

from pydantic import Field, model_validator

from meshwright.errors import Fault, InvalidSpec
from meshwright.specs import catalog
from meshwright.specs.assumed import Assumed
from meshwright.specs.base import Spec
from meshwright.specs.cluster import Accelerator
from meshwright.specs.kernels import NumberFormat

FP32_BYTES = 4
"""Of one element of master weights and statistics, and of moments as most runtimes keep them."""
HALF_BYTES = 2
"""Of one element in bf16 or fp16: weights, activations and their traffic."""
ElementBytes = Annotated[float, Field(gt=0, le=HALF_BYTES)]


class Precision(Spec):
    """One recipe; optimizer states and gradients are not its concern."""

    called: ClassVar[str] = "the precision recipe"

    id: str
    aliases: tuple[str, ...] = ()
    half: Literal["bf16", "fp16"]
    """Of activations and whatever is not quantised."""
    peak: Literal["bf16", "fp16", "fp8", "mxfp8", "nvfp4"]
    """The accelerator's peak that its products run at; one without that peak cannot run it."""
    least_compute_capability: Annotated[float, Field(gt=0, lt=100)] | None = None
    """Below which its library refuses an accelerator that has that peak; None: it refuses none."""
    number_format: NumberFormat
    """Of the operands of its products, which chooses the constants of their time."""
    operand_bytes: ElementBytes
    """Of an element of an operand, with its share of the scales."""
    product_slowdown: Annotated[float, Field(ge=1, le=10)] = 1.0
    """Time of its products over that of products with one scale per tensor."""
    attention: str = ""
    """The recipe of 8-bit attention beside it, where that is not its own."""
    quantise_reads: Annotated[int, Field(ge=0, le=3)]
    """How often quantising reads an element: once, and once more for a maximum over the whole tensor."""
    rescales_gradients: bool = False
    """Products of the backward pass put out unscaled numbers, which kernels of their own multiply by the scales."""
    scales_from_earlier_steps: bool = False
    """Scales follow the maxima of earlier quantisations, so that a tensor must be quantised once a step (delayed)."""
    gathered_bytes: ElementBytes = HALF_BYTES
    """Of an element of a weight that data-parallel ranks gather, where weights are stored in quantised form alone."""
    columns: Literal["same", "transposed", "own"]
    """What products that read an operand by columns take: the same data; the same, transposed where the accelerator
    cannot read fp8 by columns; or data that is quantised along the columns on its own."""
    marks_expert_rows: bool = False
    """Experts run as one operation of Transformer Engine, which marks the rows that it keeps, so that paged stashing
    packs them; without the mark they stay as large as the buffers that they came in."""
    assumed: Assumed = ()
    """What in here is an assumption, for the user's eyes."""
    sources: dict[str, str]

    def runs_on(self, accelerator: Accelerator) -> bool:
        """Whether an accelerator has the matrix units of its products, and its library takes the accelerator."""
        least, has = self.least_compute_capability, accelerator.compute_capability
        return self.peak in accelerator.peak_flops and (least is None or has is None or has >= least)

    @cached_property
    def quantises(self) -> bool:
        """Whether products take anything else than what is kept in bf16 or fp16."""
        return self.number_format != "half"

    @property
    def saved_bytes(self) -> float:
        """Bytes per element of the input that a product keeps for its weight gradient: one copy, read by columns."""
        return self.operand_bytes

    def copies(self, accelerator: Accelerator) -> int:
        """Quantised copies of a tensor that is read by rows and by columns: 0 where nothing is quantised."""
        if not self.quantises:
            return 0
        transposed = self.columns == "transposed" and not accelerator.reads_fp8_by_columns
        return 2 if transposed or self.columns == "own" else 1

    def quantise_bytes(self, accelerator: Accelerator, *, apart: bool = False, by_rows_alone: bool = False) -> float:
        """Bytes read and written to quantise one element for reading by rows and by columns.

        2 bytes for each read, and every copy with its scales. apart: by kernels of their own, which read it each;
        by_rows_alone: nothing reads it by columns.

        >>> from meshwright.specs.reading.accelerator import read_accelerator
        >>> read_precision("fp8").quantise_bytes(read_accelerator("h100"))
        6.0
        """
        copies = min(self.copies(accelerator), 1) if by_rows_alone else self.copies(accelerator)
        reads = max(self.quantise_reads, copies) if apart else self.quantise_reads
        return HALF_BYTES * reads + copies * self.operand_bytes

    def quantised_bytes(self, accelerator: Accelerator) -> float:
        """Bytes per parameter of all quantised copies of a weight; 0 where nothing is quantised."""
        return self.copies(accelerator) * self.operand_bytes

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.quantises:
            wrong = self.peak == self.half or not self.quantise_reads
            what = f"{self.number_format} needs a peak of its own and quantise_reads of 1 or more"
        else:
            wrong = self.peak != self.half or self.operand_bytes != HALF_BYTES or bool(self.quantise_reads)
            what = f"half needs peak {self.half}, operand_bytes {HALF_BYTES} and quantise_reads 0"
        if wrong:
            raise InvalidSpec(self.called, [Fault("number_format", what)])
        return self


@cache
def read_precision(name: str) -> Precision:
    """The catalogue's recipe of that id or alias; raises `UnknownName` with the nearest ones.

    >>> read_precision("mxfp8").operand_bytes
    1.03125
    """
    return Precision(**catalog.load_named("precisions", name))


class FloatFormat(NamedTuple):
    """A binary format of IEEE 754's kind: one sign bit, exponent, fraction with a hidden one."""

    name: str
    exponent_bits: int
    fraction_bits: int

    @property
    def largest(self) -> float:
        """The largest finite number.

        >>> FP16.largest
        65504.0
        """
        bias = 2 ** (self.exponent_bits - 1) - 1
        return float((2 - 2.0**-self.fraction_bits) * 2.0**bias)

    @property
    def least_normal(self) -> float:
        """The least number with full accuracy."""
        return float(2.0 ** (2 - 2 ** (self.exponent_bits - 1)))

    @property
    def least(self) -> float:
        """The least number above zero.

        >>> f"{FP16.least:.1e}"
        '6.0e-08'
        """
        return self.least_normal * 2.0**-self.fraction_bits

    @property
    def spacing(self) -> float:
        """From 1 to the next number.

        >>> BF16.spacing
        0.0078125
        """
        return float(2.0**-self.fraction_bits)

    @property
    def counts_to(self) -> int:
        """Where a sum of ones stops growing: the next number is further away than 1, and half of that rounds down.

        >>> BF16.counts_to, FP16.counts_to
        (256, 2048)
        """
        return int(2 ** (self.fraction_bits + 1))


BF16 = FloatFormat("bf16", 8, 7)
FP16 = FloatFormat("fp16", 5, 10)
FP32 = FloatFormat("fp32", 8, 23)
FORMATS = {each.name: each for each in (BF16, FP16, FP32)}
