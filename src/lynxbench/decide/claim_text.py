"""A performance claim in free text: which figures it gives, and which contexts it really states. Words, not guesses.

A name alone states nothing that a version or a number must carry: "vLLM" is not a stack, "TDP 700 W" is not a power.
"""

import re
from collections.abc import Iterable

from lynxbench.decide.claim_ratios import spoken_ratios
from lynxbench.model.claims import Claimed, Context, Stated

_DIGITS = (
    r"(?:\d{1,3}(?:[.'’ \u202f]\d{3})+,\d+(?!\d)|\d{1,3}(?:\.\d{3}){2,}(?![\d,])|\d+,\d{1,2}(?![\d,])|"
    r"(?:\d{1,3}(?:[ ,'’\u202f]\d{3})+|\d+)(?:\.\d+)?)"
)
"""As written: `1,234.5`, `1 234.5`, `1'234.5`, and with a decimal comma `1.234,5`, `12,5`."""
_NUMBER = rf"{_DIGITS}(?:e[-+]?\d{{1,2}}\b)?\s?(?:million|thousand|billion|[kKM])?"
_FROM = rf"(?:between {_NUMBER} and |(?<![-–]){_NUMBER}(?:[-–]| – ))?"
_FIGURE = rf"{_FROM}{_NUMBER}(?: ?(?:±|\+/-|\+-) ?{_NUMBER}(?: ?%)?)?"
"""A number or a range, with what is stated of its spread."""
_DECIMAL = r"\d+(?:\.\d+|,\d{1,2}(?![\d,]))?"
_ALONE = rf"(?<![\w.,٫٬'’])((?:(?<![-–]){_DECIMAL}[-–])?{_DECIMAL}(?:e[-+]?\d{{1,2}})?)"
"""A number or a range that is no end of another one."""
_MODELS = (
    r"llama|mi[sx]tral|qwen|gpt-?(?:[234j]|neo|oss)|bert|roberta|resnet|deepseek|gemma|phi-?\d|falcon|bloom|opt-\d|"
    r"smollm|stable[ -]diffusion|sdxl|whisper|vit-|dlrm|\bt5|"
    r"command-r|nemotron|granite|kimi|glm-|minilm|yolo|retinanet|"
    r"unet|3d-unet|rnn-t|starcoder|codellama|vicuna|mpt-\d"
)
_STACK_NAMES = (
    r"vllm|tensorrt(?:-llm)?|trt-llm|sglang|tgi|"
    r"text[- ]generation[- ]inference|pytorch|torch|cuda|driver|onnx ?runtime|"
    r"llama\.cpp|triton(?: server)?|rocm|deepspeed|jax|openvino|transformers|ollama|mlc"
)

_COUNT = r"(?:\d+|one|two|three|four|six|eight|ten|sixteen|single|dual)"
_MAKERS = r"(?:(?:nvidia|amd|intel|google|aws|cloud|geforce|instinct|tesla|dgx|hgx) )*"
_DEVICES = (
    r"(?:g?[bh]\d00|h20|a100|a10g?|a16|a30|a40|l40s?|l4|v100|t4|p100|mi\d{3}[ax]?|"
    r"rtx(?: pro)?[ -]?a?\d{4}(?: ti| super| ada)?|tpu[ -]?v\d[a-z]?|trainium ?\d?|inferentia ?\d?|gaudi ?\d?|"
    r"epyc(?: \d{4}\w?)?|xeon(?: [a-z]+)? ?\d{4}\w?\+?|grace|m[1-4](?: max| ultra| pro)?)"
)
_BOARD = (
    rf"{_MAKERS}{_DEVICES}(?:[ -](?:sxm\d?|pcie|nvl\d*|oam|hbm\d?e?|superchips?|\d+ ?gb))*s?(?!\w)"
    r"(?: (?:gpus?|cards?|chips?|accelerators?|sockets?)\b)?"
)
"""A device by the name that it is sold under, such as `NVIDIA H100 SXM`, `A100-80GB cards`."""
_NO_NODES = r"(?! (?:nodes?|servers?|systems?|boxes|machines?|hosts?|racks?|instances?)\b)"
"""Counted nodes are no count of devices."""

PATTERNS: dict[Context, str] = {
    Context.MODEL: (
        rf"(?:{_MODELS})[\w.\-]*(?:[ -]v?\d{{1,2}}(?:\.\d+)?(?![\d,.x×bm]))?"
        r"(?:[ -]\d+(?:\.\d+)?(?:[x×]\d+(?:\.\d+)?)?[bm]\b)?(?:[ -](?:instruct|chat|base|large|medium|small)\b)?|"
        rf"\b\d+(?:\.\d+)?\s?(?:b|B)[- ](?:parameter|model|param)\w*"
    ),
    Context.DEVICE: (
        rf"(?<![\w.,]){_COUNT} ?[x×*]? ?{_BOARD}{_NO_NODES}|(?<!\w){_MAKERS}tpu[ -]?v\d[a-z]?-\d+\b|"
        rf"(?<!\w){_BOARD} ?[x×*(] ?\d+\b|(?<!\w){_BOARD},? \d+ (?:gpus?|cards?|chips?|devices?|accelerators?)\b|"
        rf"(?<![\w.,]){_COUNT}[- ](?:gpu|card|chip|accelerator|socket|way)s?[ -]{_BOARD}"
    ),
    Context.PRECISION: (
        r"\b(?:fp|bf|tf|int|nvfp|mxfp|w)\d{1,2}(?:a\d{1,2})?\b|\b(?:fp|bf|int)-\d{1,2}\b|"
        r"\bbfloat16\b|\bhalf[- ]precision\b|\bsingle[- ]precision\b|"
        r"\b(?:awq|gptq)\b|\bq\d_[k0]\w*|\b[48][- ]?bit\b"
    ),
    Context.LOAD: (
        r"\bbatch(?:es)?(?:[ -]size)?(?: of)?[ =:-]*\d+|\bbs[ =:]*\d+|\bconcurrency(?: of)?[ =:]*\d+|"
        rf"\b{_NUMBER}[- ](?:concurrent|parallel|simultaneous)\b|"
        rf"\b\d+ (?:\w+ )?(?:users|clients|streams) (?:at once|in parallel)|\b{_NUMBER} clients\b|"
        r"\barrivals? (?:at|of) \d+|\brequest rate(?: of)?[ =:]*\d+"
    ),
    Context.LENGTHS: (
        r"\b\d+[kK]?[- ](?:input|prompt|output|generated|prefill|"
        r"decode|context)[- ]?(?:token|length)?|\b[io]sl[ =:]*\d+|"
        r"\b\d+[kK]?[- ]tokens? (?:in|out|prompts?|inputs?|outputs?|"
        r"answers?)\b|\b\d+[kK]? ?(?:in|input) ?/ ?\d+[kK]? ?(?:out|output)|"
        r"\b(?:prompts?|inputs?|contexts?) (?:of |= ?|: ?)?\d+[kK]?(?= ?tokens?\b(?! ?(?:/|per|a ))|, ?outputs?\b)|"
        r"\b\d+[kK]? new tokens?\b(?! ?(?:/|per|a ))|"
        r"\b(?:sequence|context|prompt|input|output) lengths?(?: of)?[ =:]*\d+|\b\d+ ?[x×] ?\d+ (?:pixel|image|input)"
    ),
    Context.STACK: rf"\b(?:{_STACK_NAMES})[ /=:v-]*(?:version )?\d+\.\d[\w.+\-]*|"
    r"\bdriver (?:version )?\d{3}\b|\bcuda (?:toolkit )?\d{2}\b|\bllama\.cpp[ (]*(?:build )?b?\d{4}\b",
    Context.REGIME: (
        r"\b(?:offline|online|server|single[- ]?stream|multi[- ]?stream|interactive)\b(?: scenario| mode| serving)?|"
        r"\b(?:open|closed)[- ]loop\b|\bpoisson\b|\bsaturat\w+|\b(?:latency|"
        r"throughput|cost)[- ](?:optimi[sz]ed|bound|oriented|regime)"
    ),
    Context.DURATION: (
        r"\b(?:for|over|during|lasting|across|within an?) (?:a |the |"
        r"about )?\d+(?:\.\d+)?[- ]?(?:s|sec|seconds?|min|minutes?|h|hours?)\b|"
        r"\b\d+[- ](?:s|sec|seconds?|min|minutes?|h|hours?)[- ](?:runs?|tests?|windows?|measurement|benchmark|soak)|"
        r"(?<=[,;(] )\d+ ?(?:min|minutes|h|hours)(?=[,;:.)])"
    ),
    Context.WARMUP: (
        r"\bwarm(?:ed)?[- ]?up\b|\bwarmed\b|\bsteady[- ]state\b|"
        r"\b(?:exclud|discard|dropp)\w+ the first\b|\bafter compilation\b"
    ),
    Context.PERCENTILE: (
        r"\bp(?:50|75|9\d(?:\.\d+)?)\b|\b\d{2}(?:\.\d+)?(?:th|st|nd|"
        r"rd)?[- ]percentile|\bmedian\b|\b(?:50|9\d(?:\.\d+)?) ?% of requests"
    ),
    Context.ACCURACY: (
        r"\baccura(?:cy|te to)\b|\bperplexity\b|\b(?:mmlu|gsm8k|"
        r"hellaswag|rouge|bleu|humaneval|truthfulqa)\b|\btop-?[15]\b|"
        r"\bf1\b|\b(?-i:WER|CER|mAP|AUC|mIoU)\b|\b\d+(?:\.\d+)? ?% of (?:the )?(?:fp32|fp16|bf16|reference)"
    ),
    Context.POWER: (
        r"\b\d[\d.,]* ?(?:k?W|watts?|kilowatts?)\b|\b(?:joules?|kwh|mj|j)(?: (?:per|a) |/)\w+|\b\d[\d.,]* ?kWh\b|"
        r"\b(?:per|a) (?:watt|joule)\b"
    ),
}
_COMPILED = {context: re.compile(pattern, re.IGNORECASE) for context, pattern in PATTERNS.items()}
_NAMEPLATE = re.compile(
    r"(?:tdp|nameplate|rated|board power|up to)\W{0,12}\d[\d.,]* ?k?W\b|"
    r"\b\d[\d.,]* ?k?W (?:tdp|rated|nameplate|board power)",
    re.I,
)
_UNSUPPORTED_ACCURACY = re.compile(r"\b(?:no|without(?: any)?|negligible|minimal) (?:loss|drop)|\blossless\b", re.I)

_WORD = r"(?:two|three|four|five|six|seven|eight|nine|ten|twenty|fifty|hundred)"
_BETTER = r"(?:faster|quicker|higher|more|better|lower|cheaper|less)\b"
_AS = r"as (?:fast|quick|quickly|cheap|efficient|responsive|high|low|many (?:tokens|requests|users)|much throughput)\b"
_WHAT = (
    r"(?:(?!(?:the|its|our)? ?(?:batch|precision)\b|and\b|or\b)[\w.%-]+ ){0,3}?"
    r"(?:throughput|latenc(?:y|ies)|ttft|time to first token|performance|speed|bandwidth|efficiency|response times?|"
    r"inference times?|training times?|costs?|tokens? per second|tokens?/s|energy|power)\b"
)
"""What a ratio in words is of; a batch or a precision that is halved is no claim."""
_VERB = (
    r"cut(?:s|ting)?|reduc(?:e|es|ed|ing)|lower(?:s|ed|ing)?|slash(?:es|ed|ing)?|trim(?:s|med|ming)?|improv(?:e|es|ed|ing)|"
    r"increas(?:e|es|ed|ing)|boost(?:s|ed|ing)?|rais(?:e|es|ed|ing)"
)
_PERCENT = r"%|per ?cent\b"
_UP_TO = r"(?:up to |about |almost |nearly |over |more than |at least )?"

_CLAIMED: tuple[tuple[str, re.Pattern[str]], ...] = tuple(
    (kind, re.compile(pattern, re.IGNORECASE))
    for kind, pattern in (
        ("rate", rf"(?<![\w.,'’])({_FIGURE}) ?((?:output |total |input )?(?:tokens?|tok|requests?|reqs?|queries|"
                 r"images?|samples?|inferences?)"
                 rf" ?(?:/|per|a) ?(?:s|sec|second|min|minute|h|hour|day)\b|t/s\b|tps\b|qps\b|rps\b)"
                 r"(?:(?: ?/ ?| per )(?:user|gpu|device|card|chip|node|stream|accelerator|request)\b)?"),
        ("latency", rf"(?<![\w.,'’])({_FIGURE}) ?(ms|milliseconds?|µs|us|microseconds?)(?![\w/])"),
        ("latency", rf"{_ALONE} ?(s|seconds?) "
                    r"(?:(?:time )?to first token|latency|ttft|response|end[- ]to[- ]end)"),
        ("latency", r"(?:latency|ttft|time to first token|response time)(?: of| is| was| at)?[ =:]{1,3}"
                    r"(\d+(?:[.,]\d+)?) ?(s|seconds?)\b"),
        ("ratio", rf"{_ALONE} ?([x×])(?! ?\d)(?! ?{_BOARD})(?: |-)?"
                  r"(?:faster|higher|more|better|the|speed|lower|cheaper|throughput|performance)?"),
        ("ratio", rf"{_ALONE} ?(times) (?:faster|higher|more|better|the|as|lower|cheaper)"),
        ("ratio", rf"{_ALONE} ?({_PERCENT}) (?:faster|higher|more|better|lower|cheaper|less)"),
        ("ratio", rf"\b(twice|thrice|{_WORD} times|(?:an? |\w+ )?orders? of magnitude) ({_BETTER}|{_AS}|the {_WHAT})"),
        ("ratio", rf"\b(half|double|triple|quadruple) (the {_WHAT})"),
        ("ratio", rf"\b((?:halv|doubl|tripl|quadrupl)(?:e|es|ed|ing)) ({_WHAT})"),
        ("ratio", rf"\b({_VERB}) ({_WHAT} (?:in|by) (?:one |a )?half)\b"),
        ("ratio", rf"\b(?:{_VERB}) {_WHAT} by {_UP_TO}{_ALONE} ?({_PERCENT}|[x×]|times)"),
        ("ratio", rf"{_ALONE} ?({_PERCENT}) "
                  r"(?:reduction|improvement|increase|decrease|gain|speed-?up|boost|saving)s?\b"),
        ("ratio", rf"(?<![\w.,'’])(\d+(?:[.,]\d+)?|{_WORD})[- ]?(fold)\b(?![- ]cross)"),
        *(("ratio", pattern) for pattern in spoken_ratios(_ALONE, _WORD)),
        ("energy", rf"({_NUMBER}) ?((?:tokens?|requests?|images?) ?(?:/|per|a) ?(?:watt|joule|kwh|w|j)\b)"),
        ("money", r"((?:[$€£] ?)\d[\d.,]*|\d[\d.,]* ?(?:USD|EUR|GBP|cents?)) ?"
                  r"((?:/|per|for|a) ?[\w ]{0,12}(?:tokens?|requests?|hour|images?))"),
    )
)  # fmt: skip


def stated_in_text(text: str) -> tuple[Stated, ...]:
    """The contexts that a text states, each with the words that state it."""
    statements = []
    for context, pattern in _COMPILED.items():
        match = next((candidate for candidate in pattern.finditer(text) if _counts(context, text, candidate)), None)
        if match is not None:
            statements.append(Stated(context=context, words=" ".join(match.group(0).split())))
    return tuple(statements)


def states_device(text: str) -> bool:
    """Whether a text says which device and how many."""
    return _COMPILED[Context.DEVICE].search(text) is not None


def claimed_in_text(text: str) -> tuple[Claimed, ...]:
    """The figures that a text claims."""
    claims: dict[tuple[int, int], Claimed] = {}
    for kind, pattern in _CLAIMED:
        for match in pattern.finditer(text):
            if any(start < match.end() and match.start() < end for start, end in claims):
                continue
            value, unit = ("value", "unit") if "unit" in pattern.groupindex else (1, 2)
            claims[match.span()] = Claimed(
                value=" ".join(match[value].split()),
                unit=" ".join(match[unit].split()),
                kind=kind,  # type: ignore[arg-type]
                text=" ".join(match.group(0).split()),
            )
    return tuple(claims[span] for span in sorted(claims))


def warnings_in_text(text: str, claimed: Iterable[Claimed]) -> tuple[str, ...]:
    """What a text says that must not be read as evidence."""
    warnings = []
    if _NAMEPLATE.search(text):
        warnings.append("a nameplate power is no measured draw")
    if _UNSUPPORTED_ACCURACY.search(text):
        warnings.append("an accuracy is asserted without a figure")
    if re.search(r"\bup to\b|\bas (?:high|low|little|much) as\b|\bpeak\b|\bmaximum\b", text, re.IGNORECASE):
        warnings.append("a peak or an upper bound is the envelope, not what is sustained")
    if re.search(r"\bon average\b|\baverage latency\b|\bmean latency\b", text, re.IGNORECASE):
        warnings.append("an average latency hides the tail")
    if any(claim.kind == "ratio" for claim in claimed):
        warnings.append("a ratio needs both of its sides in full")
    if re.search(r"\bsparsity\b|\bsparse\b", text, re.IGNORECASE):
        warnings.append("a rate with sparsity holds for sparse weights only")
    return tuple(warnings)


def _counts(context: Context, text: str, match: re.Match[str]) -> bool:
    if context is Context.POWER:
        return not any(
            nameplate.start() <= match.start() < nameplate.end() + 4 for nameplate in _NAMEPLATE.finditer(text)
        )
    if context is Context.ACCURACY:
        around = text[max(0, match.start() - 40) : match.end() + 60]
        return any(character.isdigit() for character in around.replace(match.group(0), "") + match.group(0)) and not (
            _UNSUPPORTED_ACCURACY.search(around) and not re.search(r"\d+(?:\.\d+)? ?%", around)
        )
    return True
