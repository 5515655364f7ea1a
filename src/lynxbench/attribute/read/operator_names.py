"""What an operator or a device kernel does, by its name: the only thing every trace carries."""

import re
from enum import StrEnum
from functools import lru_cache


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


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_VIEWS = _words(
    """
    view _unsafe_view reshape _reshape_alias view_as reshape_as transpose transpose_ t t_ permute movedim swapaxes
    numpy_T as_strided as_strided_ expand expand_as slice select unsqueeze unsqueeze_ squeeze squeeze_ detach detach_
    alias narrow chunk split split_with_sizes unbind unflatten flatten diagonal unfold unsafe_split unsafe_chunk
    tensor_split hsplit result_type
    """
)
"""They make a view of the same data, or ask about it; where one must copy, the copy shows as an operator inside."""
ONNX = "onnx::"
"""Before an ONNX operator's name, in traces made from ONNX Runtime's profile."""
ONNX_INTEGER_PRODUCTS = _words(
    """
    ConvInteger DynamicQuantizeLSTM DynamicQuantizeMatMul MatMulInteger MatMulIntegerToFloat QAttention QGemm
    QLinearConv QLinearMatMul
    """
)
ONNX_PRODUCTS = ONNX_INTEGER_PRODUCTS | _words(
    """
    Attention Conv ConvTranspose FusedConv FusedGemm FusedMatMul GRU Gemm GroupQueryAttention LSTM MatMul MatMulNBits
    MultiHeadAttention NhwcFusedConv RNN SparseAttention
    """
)


def _kind_of_word(words: dict[OperatorKind, str]) -> dict[str, OperatorKind]:
    """Each word's kind; of a word that stands under several, the first."""
    table: dict[str, OperatorKind] = {}
    for kind, text in words.items():
        for word in text.split():
            table.setdefault(word, kind)
    return table


_TORCH = _kind_of_word(
    {
        OperatorKind.PRODUCT: """
            mm addmm bmm baddbmm addbmm mv addmv dot vdot addr ger _addmm_activation _int_mm _scaled_mm
            _weight_int8pack_mm _weight_int4pack_mm _weight_int4pack_mm_for_cpu mkldnn_linear _mkldnn_linear
            _linear_pointwise _mkl_linear _grouped_mm _scaled_grouped_mm linear_dynamic linear_dynamic_fp16
            linear_relu linear_relu_dynamic mkldnn_convolution _convolution_pointwise cudnn_convolution
            cudnn_convolution_relu cudnn_convolution_add_relu cudnn_convolution_transpose miopen_convolution
            _slow_conv2d_forward slow_conv3d_forward slow_conv_dilated2d slow_conv_transpose2d _conv_depthwise2d
            conv_depthwise3d _nnpack_spatial_convolution convolution_backward _slow_conv2d_backward
            mkldnn_convolution_backward mkldnn_rnn_layer _cudnn_rnn _cudnn_rnn_backward
            _scaled_dot_product_flash_attention_for_cpu _scaled_dot_product_flash_attention_for_cpu_backward
            _flash_attention_forward _flash_attention_backward _efficient_attention_forward
            _efficient_attention_backward _cudnn_attention_forward _cudnn_attention_backward
            _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward _dyn_quant_matmul_4bit
            cdist _cdist_forward
        """,
        OperatorKind.ALLOCATION: """
            empty empty_strided empty_like new_empty new_empty_strided resize_ resize_as_ set_ _efficientzerotensor
            empty_quantized _empty_affine_quantized empty_permuted _resize_output_ record_stream
        """,
        OperatorKind.COPY: """
            copy_ _copy_from cat _cat constant_pad_nd roll flip fill_ zero_ index_fill_ _pack_padded_sequence
        """,
        OperatorKind.GATHER: """
            index index_select gather embedding_bag _embedding_bag embedding_dense_backward index_put_
            _index_put_impl_ index_copy_ index_add_ scatter scatter_ scatter_add_ take take_along_dim masked_select
            masked_scatter_ index_put _unsafe_index embedding_renorm_ nll_loss_backward one_hot grid_sampler_2d
        """,
        OperatorKind.REDUCTION: """
            sum mean prod max min amax amin argmax argmin aminmax all any norm linalg_vector_norm var var_mean std
            std_mean nansum count_nonzero cumsum cumprod topk sort argsort kthvalue median mode unique _unique2
            unique_consecutive histc bincount nll_loss_forward nll_loss2d_forward mse_loss l1_loss smooth_l1_loss
            huber_loss binary_cross_entropy nonzero equal multinomial _foreach_norm
            _amp_foreach_non_finite_check_and_unscale_ logsumexp searchsorted bucketize trace
        """,
        OperatorKind.NORMALISATION: """
            native_layer_norm native_layer_norm_backward _fused_rms_norm _fused_rms_norm_backward native_batch_norm
            native_batch_norm_backward cudnn_batch_norm cudnn_batch_norm_backward _native_batch_norm_legit
            native_group_norm native_group_norm_backward _softmax _softmax_backward_data _log_softmax
            _log_softmax_backward_data _safe_softmax _masked_softmax renorm batch_norm_stats max_pool2d_with_indices
            max_pool2d_with_indices_backward avg_pool2d avg_pool2d_backward _adaptive_avg_pool2d
            _adaptive_avg_pool2d_backward upsample_nearest2d upsample_bilinear2d
        """,
        OperatorKind.SYNCHRONIZATION: "_local_scalar_dense synchronize",
        # Their own time is bookkeeping; what they compute shows as an operator inside.
        OperatorKind.DISPATCH: """
            resolve_conj resolve_neg is_nonzero lift_fresh lift to _to_copy type_as contiguous clone matmul linear
            einsum conv1d conv2d conv3d convolution _convolution convolution_overrideable thnn_conv2d slow_conv3d
            conv_transpose2d scaled_dot_product_attention _scaled_dot_product_flash_attention
            _scaled_dot_product_efficient_attention _scaled_dot_product_attention_math _fused_sdp_choice layer_norm
            rms_norm batch_norm _batch_norm_impl_index group_norm instance_norm relu relu_ softmax log_softmax dropout
            feature_dropout cross_entropy_loss nll_loss nll_loss_nd embedding zeros ones full zeros_like ones_like
            full_like new_zeros new_ones new_full rand randn randint randn_like rand_like arange item meshgrid
            broadcast_tensors concat concatenate stack hstack vstack column_stack repeat_interleave repeat tile
            is_floating_point size stride sym_size numel dim max_pool2d max_pool1d avg_pool1d adaptive_avg_pool1d lstm
            gru rnn_tanh rnn_relu multi_head_attention_forward _nnpack_available cudnn_is_acceptable is_pinned
            pin_memory _has_compatible_shallow_copy_type requires_grad_ retain_grad output_nr _version is_leaf data
            set_data backward square rsub clip clip_ multiply divide subtract true_divide std std_mean conj _conj real
            imag view_as_real view_as_complex pad adaptive_avg_pool2d dropout_
        """,
    }
) | dict.fromkeys(_VIEWS, OperatorKind.DISPATCH)
_ONNX = dict.fromkeys(ONNX_PRODUCTS, OperatorKind.PRODUCT) | _kind_of_word(
    {
        OperatorKind.NORMALISATION: """
            LayerNormalization SkipLayerNormalization SimplifiedLayerNormalization SkipSimplifiedLayerNormalization
            EmbedLayerNormalization BatchNormalization InstanceNormalization GroupNorm GroupNormalization
            RMSNormalization SkipGroupNorm LpNormalization Softmax LogSoftmax BiasSoftmax MaxPool AveragePool
            GlobalAveragePool GlobalMaxPool LRN Resize Upsample QLinearSoftmax QLinearGlobalAveragePool
            QLinearAveragePool
        """,
        OperatorKind.GATHER: """
            Gather GatherElements GatherND GatherBlockQuantized Compress OneHot ScatterElements ScatterND
        """,
        OperatorKind.COPY: """
            Transpose Concat Slice Split Expand Tile Pad Cast ReorderInput ReorderOutput DepthToSpace SpaceToDepth
            MemcpyFromHost MemcpyToHost QLinearConcat Trilu ConstantOfShape EyeLike Range RemovePadding RestorePadding
        """,
        OperatorKind.DISPATCH: """
            run Shape Size Reshape Unsqueeze Squeeze Flatten Identity Constant If Loop Scan Optional
            OptionalGetElement SequenceAt SequenceConstruct SequenceEmpty SequenceInsert ConcatFromSequence
        """,
        OperatorKind.REDUCTION: "TopK CumSum NonZero Unique NonMaxSuppression",
    }
)
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
    r"nccl|rccl|all_?reduce|all_?gather|reduce_?scatter|all_?to_?all|multimem|deep_ep", re.IGNORECASE
)
_ATTENTION = re.compile(r"flash|fmha|attention|sdpa|mha_", re.IGNORECASE)
_PRODUCT = re.compile(
    r"gemm|gemv|nvjet|cutlass|xmma|cublas|matmul|_mm_|conv|wgrad|dgrad|hgemm|sgemm|splitk|dot_kernel|marlin|implicit_con",
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


_WHOLE_GRAPH = re.compile(r"^CUDA graph")
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
