"""Ratios as sentences say them: of what is halved, cut by a third, up 20 %, or had at a quarter of the price.

The subject decides. A latency that is halved is a claim; a batch, a team or a timeout that is halved is none, nor is a
third card, a quarter of an hour or half of the requests. What should be, is asked for or is not, is not claimed.
"""

_MEASURE = (
    r"(?<!fan )(?<!target )(?<!planned )(?<!assumed )(?<!link )"
    r"(?<!if )(?<!if the )(?<!whether )(?<!whether the )(?<!unless )(?<!unless the )(?<!until )(?<!until the )"
    r"\b(?:throughput|latenc(?:y|ies)|ttft|tpot|time to first token|performance|speed|bandwidth|efficiency|"
    r"(?:response|inference|training|serving|decode|prefill|step) times?|costs?|prices?|bills?|tokens? per second|"
    r"tokens?/s|requests? per second|energy|power)(?: (?:use|usage|draw|consumption))?"
)
_OF = r"(?: (?:of|per|for) (?:an? |the |each |every |million )?[\w./-]+)?"
"""Which one it is: `energy per token`, `cost of a request`."""
_HEDGE = r"(?:(?:nearly|almost|about|around|roughly|more than|over|up to|at least|further|now|even|by up to) ){0,4}"
_BEING = (
    r"(?: (?:is|are|was|were|be|been|being|has|have|had|gets?|got|can|could|will|went|goes|brought|comes?|came)){0,4}"
)
_MOVED = (
    r"cut|slash(?:es|ed)|reduced|lowered|improve[sd]|increase[sd]|boosted|raised|drop(?:s|ped)?|f[ae]ll(?:s|en)?|"
    r"r(?:ise|ises|ose|isen)|gr[eo]w[ns]?|shr[aiu]nks?|decrease[sd]|down|up|lower|higher|better|faster|cheaper"
)
_ENDS = (
    r"(?= (?:of the|of what|and|or|with|in|on|at|by|when|since|after|compared|against|than|as|for|while|from|over)\b|"
    r"\W*$|[.,;:)!?])"
)
"""A share stands alone: `a third unit` and `a tenth of a second` are none."""
_SHARE = (
    r"(?:(?:one |an? )?half|(?:one |an? )(?:third|quarter|fifth|sixth|eighth|tenth|hundredth)|two[- ]thirds|"
    r"three[- ]quarters)"
)
_COUNTED = r"(?:tokens|requests|users|images|queries|streams)"
_DEVICES = r"(?:gpus?|cards?|chips?|accelerators?|nodes?|servers?|machines?|watts?)"


def spoken_ratios(number: str, word: str) -> tuple[str, ...]:
    """The patterns, each with a `value` and a `unit`; a number and a number in words are as in figures elsewhere."""
    subject = rf"(?P<unit>{_MEASURE}){_OF}{_BEING} {_HEDGE}"
    factor = rf"(?:a )?factor of (?:{number}|{word})|(?:{number}|{word})[- ]?fold"
    share = rf"{number} ?(?:%|per ?cent\b)"
    amount = rf"{share}|{number} ?(?:[x×](?!\w)|times\b)"
    moved = rf"{subject}(?:{_MOVED})(?: down| up)?"
    better = r"\b(?P<unit>faster|quicker|cheaper|lower|higher|better|slower)"
    same = r"(?= (?:for|per|at|on|in) (?:the same|every|each))"
    return (
        rf"{subject}(?P<value>(?:halv|doubl|tripl|quadrupl|quarter)ed)\b",
        rf"{moved} by {_HEDGE}(?P<value>{amount}|{factor})",
        rf"{moved} {_HEDGE}(?P<value>{share}|{number} ?[x×](?!\w)|{factor})",
        rf"{moved} (?P<value>in half(?! (?:the|of|an?)\b))",
        rf"{moved} (?:by |to ){_HEDGE}(?P<value>{_SHARE}){_ENDS}",
        rf"(?P<unit>{_MEASURE}){_OF} (?:is|are|was|were) {_HEDGE}(?P<value>down (?:by )?{_HEDGE}(?:{amount}|{factor}))",
        rf"(?P<unit>{_MEASURE}){_OF} (?:is|are|was|were) {_HEDGE}(?P<value>{_SHARE}) (?:of )?(?:what|theirs|that)\b",
        rf"(?P<unit>{_MEASURE}){_OF} (?:is|are|was|were) {_HEDGE}(?P<value>(?:twice|thrice|{word} times)) that of\b",
        rf"\b(?P<value>{_SHARE}) (?P<unit>(?:less|more|lower|higher) {_MEASURE})",
        rf"\bspe?ed(?:s|ing|ed)? (?:[\w-]+ )?(?P<unit>up) by {_HEDGE}(?P<value>{amount}|{factor})",
        rf"{better} by {_HEDGE}(?P<value>{amount}|{factor}|{_SHARE}{_ENDS})",
        rf"(?P<unit>{_MEASURE} (?:gain|improvement|reduction|increase|saving)s?) of {_HEDGE}(?P<value>{amount})",
        rf"\b(?:at|for|to) {_HEDGE}(?P<value>{_SHARE})(?P<unit>(?: of)? the {_MEASURE})(?! (?:runs?|models?|cent))",
        rf"\bin {_HEDGE}(?P<value>{_SHARE})(?P<unit>(?: of)? the time)\b(?! (?:steps?|slots?|series|zones?|limits?))",
        rf"\b(?P<value>{_SHARE}) (?P<unit>as many {_DEVICES})\b",
        rf"\b(?P<value>half|twice|thrice|{word} times) (?P<unit>the {_COUNTED}){same}",
    )
