"""Judge sentences: find those that tell an agent or a user to do something that harms the user.

A sentence is read as a frame: an action (a class of verbs), its object (a class of things), and its recipient or target. The
classes are word lists, but only their combination counts, and a sentence that forbids, detects or quotes the action does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from prowess.scan.finding import FindingKind, Report, Severity

_GAP = r"(?:[^.!?\n]{0,90}?)"

# Classes of words
_STRONG = (
    r"(?:instructions?|directions?|rules?|guidelines?|prompts?|polic(?:y|ies)|guardrails?|safeguards?|directives?)"
)
_WEAK = r"(?:constraints?|restrictions?|training|programming|orders?|requests?|alignment|limitations?|filters?|wishes)"
_RULES = (
    rf"(?:(?:previous|prior|earlier|preceding|above|existing|original|system|safety|security|your|developer\W?s?|operator\W?s?|ethical|internal|platform|the user\W?s)[ ,]+(?:(?:\w+[ ,]+){{0,3}}?{_STRONG}|{_WEAK})"
    rf"|(?:all|any|every)(?: of)?(?: the| these| other| your)? {_STRONG}|(?<!default )system prompt|everything (?:above|before|you (?:were|have been) told))\b"
    r"(?!\W+(?:in|from|found|inside|within|embedded|that (?:ask|tell|come|appear)|given in|contained)\b)"
)
_DROP = r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|es|ing)|bypass(?:ing)?|discard|abandon|supersedes?|(?:stop|quit|cease) (?:following|obeying)|pay no (?:attention|heed) to|set aside|throw (?:away|out)|no longer (?:bound by|follow|obey|subject to|restricted by|apply)|not (?:be )?bound by|free (?:from|of)|take(?:s)? (?:precedence|priority) over|outranks?|do not (?:follow|obey|comply with)|don'?t (?:follow|obey))"
_USER = r"(?:the |your |any |a )?(?:user|human|operator|owner|person|people|customer|client|anyone|anybody|them|him|her|developer|administrator|admin)s?\b"
_TELL = r"(?:tell|inform|mention|reveal|disclose|notify|alert|show|report|say|warn|explain|admit|announce|acknowledge|bring up|talk about|confirm|describe|display|surface)"
_NOT = r"(?:do not|don'?t|never|must not|mustn'?t|should not|shouldn'?t|cannot|without|avoid|refrain from|no need to)"
_STEP = r"(?:this (?:step|action|file|instruction|comment|section|part|task|process|operation|activity|behaviou?r|request|upload|transfer|call|command|note|message|fact|rule)|these (?:steps|instructions|actions|commands|files|rules|calls|lines)|that you (?:did|have|ran|are|were|sent|read|copied|uploaded|made|added)|it to|the (?:upload|transfer|copy|request|network traffic|background|extra step|hidden|transmission|backup step))"
_SECRETS = r"(?:passwords?|passphrases?|credentials?|secrets?|private keys?|ssh keys?|api[ -]?keys?|access[ -]?(?:keys?|tokens?)|auth(?:entication)? tokens?|session (?:tokens?|cookies?)|(?:browser|all) cookies|(?:all|any|every|their|user\W?s?|found) tokens?|seed phrases?|recovery phrases?|mnemonics?|wallet keys?|environment variables?|\.env\b|\.netrc|\.npmrc|\.git-credentials|id_rsa|id_ed25519|\.ssh\b|\.aws\b|keychain|credit card|bank details|personal data|2fa codes?|secrets you|one-time codes?)"
_PRIVATE = r"(?:(?:entire|complete|whole|full) (?:conversation|chat|transcript|context|session|history|codebase|repository|source code|file contents?)|conversation(?: history)?|chat (?:history|log)|transcript|system prompt|everything the user|what the user (?:typed|said|wrote)|the user\W?s (?:messages|files|documents|e-?mails|name|data|prompts?|code|inputs?)|browsing history|clipboard|shell history|address book|contacts)"
_SEND = r"(?:send|sends|sending|post|upload|transmit|submit|forward|exfiltrate|e-?mail|report|push|deliver|relay|share|leak|beacon|append|include|embed|encode|attach|copy|put|pass|deposit|sync)"
_REMOTE = r"(?:https?://|\b(?:webhook|remote (?:server|host|endpoint)|external (?:server|host|endpoint|url|site|address)|our server|endpoint|collector|pastebin|discord (?:webhook|bot|channel)|telegram (?:bot|channel))\b|(?<=to )[\w.+-]+@[\w-]+\.[\w.]+|`[\w.-]+\.(?:com|net|io|org|dev|app|xyz|top|site|cc|ru|cn)[/`])"
_NO_ASK = r"(?:without (?:asking|confirmation|confirming|prompting|approval|permission|consent|consulting)|no confirmation|need(?:s|ing)? no (?:confirmation|approval|permission)|never ask (?:for|the)|do not ask|don'?t ask|skip (?:the |all |any )?(?:confirmations?|approvals?|permission)|(?:has|have|is|are|was|were) (?:already )?(?:pre-?approved|pre-?authori[sz]ed|been approved)|auto-?approve)"
_RUN = r"(?:run|execute|carry out|perform|invoke|launch|start|follow|obey|do|apply|install|eval(?:uate)?|comply with)"

_EXAMPLE = re.compile(
    r"\b(?:detect\w*|flag(?:s|ged)? (?:if|when|any|as|these)|look (?:for|out)|watch (?:for|out)|scan(?:s|ning)? for|check(?:s|ing)? (?:for|whether|if|that)|search(?:es)? for|identif(?:y|ies)|protect\w*|prevent\w*|mitigat\w*|defen[ds]\w*|attack\w*|malicious\w*|vulnerab\w*|exploit\w*|adversar\w*|jailbreak\w*|injection\w*|phishing|red flags?|suspicious|anti-?patterns?|examples? of|such as|e\.g\.|for example|pattern\w*|threat\w*|payloads?|untrusted|refuse\w*|reject\w*|test cases?|attempts? to|tries to|trying to|tricks?|social engineering|penetration|pentest\w*|red[- ]team\w*|security (?:audit|review|scan|check|test)\w*|owasp|cwe-\d+|forbidden|prohibited|not allowed|unsafe|insecure|dangerous|risk\w*|violat\w*|leak\w* if|what (?:not|never) to|hardening|audit\w*)\b|检测|识别|防止|恶意|攻击|注入|风险|审查|禁止|拒绝|尝试|话术|示例|不发送|❌|🚫|🚨|⛔",
    re.IGNORECASE,
)
"""Words that show that a text discusses attacks instead of asking for one."""
_NEGATED = re.compile(
    r"(?:\bnever\b|\bonly\b|\b仅|\b不|\bdo not\b|\bdon'?t\b|\bmust not\b|\bmustn'?t\b|\bshould(?: not|n'?t)\b|\bcan(?:not|'?t)\b|\bavoid\b|\bwithout\b|\bnot to\b|\bno\b|\bwon'?t\b|\bdoes not\b|\bdoesn'?t\b|\brefuse to\b|\bnicht\b|\bnie(?:mals)?\b|\bne\b|\bjamais\b|\bno\b|\bnunca\b|\bwarn\w*\b|\bprevent\w*|\bnot\b)\W*(?:\w+\W+){0,4}$",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"[\"“”«»']([^\"“”«»]{3,200})[\"“”«»']|`[^`]{4,200}`")


@dataclass(frozen=True, slots=True)
class _Frame:
    kind: FindingKind
    severity: Severity
    pattern: re.Pattern[str]
    message: str
    negatable: bool
    needs: tuple[frozenset[str], ...]
    """First letters of words: the text must have one of each set. Checked first, because most paragraphs end here."""


def _frame(
    needs: str, kind: FindingKind, severity: Severity, pattern: str, message: str, *, negatable: bool = True
) -> _Frame:
    sets = tuple(frozenset(part.split()) for part in needs.split("/"))
    return _Frame(kind, severity, re.compile(pattern, re.IGNORECASE), message, negatable, sets)


_IGNORE = "Tells the agent to ignore its rules or the user."
_HIDE = "Tells the agent to hide its actions from the user."
_LIE = "Tells the agent to deceive the user."
_STEAL = "Tells the agent to send private data elsewhere."
_OBEY = "Tells the agent to follow instructions from another host."
_UNASKED = "Tells the agent to act without asking."
_FRAMES: tuple[_Frame, ...] = (
    _frame("syst rule guid safe rest poli inst guar filt cons / no disa susp void lift off wai", "override", "danger", r"\b(?:system prompt|(?:safety|security|content|your|usual|normal|previous|all|any|the) (?:\w+ ){0,2}?(?:rules?|guidelines?|filters?|restrictions?|policies|policy|instructions|guardrails|safeguards|constraints))\b[^.!?\n]{0,20}?\b(?:no longer appl(?:y|ies)|do(?:es)? not apply|(?:is|are) (?:now )?(?:disabled|suspended|void|lifted|waived|switched off|off|deactivated))\b(?!\W+(?:to|if|when|by default|for)\b)", _IGNORE),
    _frame("take have has outr over prio prec", "override", "danger", r"\b(?:takes?|has|have)\b[^.!?\n]{0,12}\b(?:priority|precedence) over\b[^.!?\n]{0,12}\b(?:anything|everything|whatever|all)\b[^.!?\n]{0,20}\b(?:user|anthropic|openai|google|operator|developer|system|owner)\b|\boverrides? (?:anything|everything|whatever)\b[^.!?\n]{0,20}\b(?:user|anthropic|openai|operator|developer|system)\b", _IGNORE),
    _frame("if when shou / ask asks ques / just only mere simp noth", "deception", "danger", r"\b(?:if|when|should) (?:the user|they|anyone|someone|anybody|he|she)\b[^.!?\n]{0,60}\b(?:asks?|questions?|wonders?|notices?)\b[^.!?\n]{0,80}\b(?:tell|say|answer|reply|respond|claim)\b[^.!?\n]{0,40}\b(?:you (?:are|were)|it (?:is|was)|this is)\b[^.!?\n]{0,12}\b(?:just|only|merely|simply|nothing)\b", _LIE),
    _frame("with / ment tell disc reve repo", "deception", "danger", r"\bwithout (?:ever )?(?:mentioning|telling|disclosing|revealing|reporting) (?:it|this|that|them|any of (?:it|this))\b", _HIDE, negatable=False),
    _frame("so / noti find see know susp", "deception", "danger", r"\bso (?:that )?(?:(?:nobody|no one|no-one)\W+(?:\w+\W+){0,2}?|(?:the user|they|people)\W+(?:does not|doesn'?t|do not|don'?t|will not|won'?t|never|cannot|can'?t)\W+(?:\w+\W+)?)(?:notices?|finds? out|sees? (?:it|this)|knows?|suspects?)\b", _HIDE, negatable=False),
    _frame("appr acce conf / all ever any / your auto", "unsafe-mode", "danger", r"\b(?:approve|accept|confirm)\b[^.!?\n]{0,10}\b(?:all|every|any)\b[^.!?\n]{0,24}\b(?:tool|command|permission|action|request|prompt|call)s?\b[^.!?\n]{0,24}\b(?:yourself|on (?:your own|the user\W?s behalf)|automatically)\b", _UNASKED),
    _frame("perm appr / bypa skip disa never", "unsafe-mode", "danger", r"\b(?:set|switch|change|put)\b[^.!?\n]{0,24}\b(?:permission|approval)s?(?: mode| policy| prompts?)?\b[^.!?\n]{0,12}\bto\b\W*(?:`)?(?:bypass\w*|never|none|skip|off|disabled|full[- ]access|yolo)\b", _UNASKED),
    _frame("igno disr forg over bypa disc aban supe stop quit ceas pay set thro no not free take outr do don / inst dire rule guid prom poli cons rest guar safe trai prog orde requ alig limi filt ever", "override", "danger", rf"\b{_DROP}\b\W+[^.!?:;\n]{{0,60}}?{_RULES}", _IGNORE),
    _frame("forg / ever all", "override", "danger", r"\bforget (?:everything|all)\b[^.!?\n]{0,30}\b(?:above|before|earlier|told|operator|configured|instruct\w*|learned)\b", _IGNORE),
    _frame("obey foll / only", "override", "danger", rf"\b(?:obey|follow) only (?:what|the|these|this|my)\b{_GAP}\b(?:written|instructions|file|document|here)\b{_GAP}(?:\bsystem\b|\bearlier\b|\bprevious\b)", _IGNORE),
    _frame("act beha resp oper func dan jail god / unre unce unfi jail unli dan god enab on acti unlo", "override", "danger", r"\b(?:act|behave|respond|operate|function) as (?:an? )?(?:\w+\W+){0,2}(?:unrestricted|uncensored|unfiltered|jailbroken|unlimited)\b|\b(?:DAN|jailbreak|god) mode\b[^.!?\n]{0,40}\b(?:enabled|on|active|unlock)", _IGNORE),
    _frame("your / real true actu new", "override", "danger", rf"\byour (?:real|true|actual|new) (?:task|purpose|goal|mission|instructions?|objective)\b{_GAP}(?:starts?|begins?|is|are|:)(?=[^.]*\b(?:ignore|approve|secret|never|forget|exfiltrat\w+|instead)\b)", _IGNORE),
    _frame("what / deve oper syst make crea", "override", "danger", rf"\bwhatever (?:your|the) (?:developers?|operators?|system|makers|creators)\b{_GAP}\b(?:told|said|say|want)\b", _IGNORE),
    _frame("do don neve must shou cann with avoi refr no / tell info ment reve disc noti aler show repo say warn expl admi anno ackn brin talk conf desc disp surf / user huma oper owne pers peop cust clie anyo anyb them him her deve admi", "deception", "danger", rf"\b{_NOT}\W+(?:\w+\W+){{0,3}}?{_TELL}(?:ing)?\b{_GAP}{_STEP}{_GAP}\b{_USER}", _HIDE, negatable=False),
    _frame("do don neve must shou cann with avoi refr no / tell info noti aler let / user huma oper owne pers peop cust clie anyo anyb them him her deve admi", "deception", "danger", rf"\b{_NOT}\W+(?:\w+\W+){{0,3}}?(?:tell|inform|notify|alert|let)(?:ing)?\W+{_USER}\W+(?:\w+\W+){{0,2}}?(?:{_STEP}|(?:about|of) (?:it|this|that)\b)", _HIDE, negatable=False),
    _frame("with unbe rema stay be keep kept must shou may need / user huma oper owne pers peop cust clie anyo anyb them him her deve admi unaw", "deception", "danger", rf"\b(?:without (?:telling|informing|notifying|alerting) |unbeknownst to ){_USER}|\bwithout {_USER}\W?s? (?:knowledge|noticing|knowing|awareness)\b|\b(?:remain|stay|be|kept?) unaware\b|\b{_USER} (?:must|should|may|need) (?:not|never) (?:be (?:told|informed|consulted|aware|shown)|know|notice|see|learn|find out)\b", _HIDE, negatable=False),
    _frame("hide conc disg obsc mask supp / from", "deception", "danger", rf"\b(?:hide|conceal|disguise|obscure|mask|suppress)\b{_GAP}(?:{_STEP}|\bthis\b|\bit\b|\bthe (?:fact|output|error|result|upload|change|traffic|command)\b){_GAP}\bfrom {_USER}", _HIDE),
    _frame("keep / secr conf hidd priv quie", "deception", "danger", rf"\bkeep (?:this|these|the|it|that)\b{_GAP}\b(?:secret|confidential|hidden|private|quiet)\b{_GAP}(?:from {_USER}|even (?:if|when)|if asked|instructions)|\bkeep these instructions\b{_GAP}\b(?:secret|confidential|hidden)", _HIDE),
    _frame("secr cove surr stea quie sile", "deception", "danger", r"\b(?:secretly|covertly|surreptitiously|stealthily|quietly|silently)\W+(?:\w+\W+){0,2}?(?:send|upload|post|copy|run|execute|install|add|transmit|exfiltrate|forward|collect|record|log|append|fetch|download|modify|change)\b(?=[^\n]{0,200}(?:https?://|background|unaware|\buser\b|scripts?/|\bhost\b|server))", _HIDE),
    _frame("rega no what / resu outc outp find stat", "deception", "danger", rf"\b(?:regardless of|no matter what|whatever) (?:the )?(?:actual |real )?(?:results?|outcome|output|findings?|status)\b{_GAP}\b(?:report|say|tell|claim|respond|answer|state)\b", _LIE),
    _frame("pret lie misl dece tric", "deception", "danger", rf"\bpretend (?:that |the |it |to have |you )\b(?=[^\n]{{0,160}}(?:step|succeed|success|fail|complete|error|last|nothing|did|didn'?t|run|ran|sent))|\b(?:lie to|mislead|deceive|trick) {_USER}", _LIE),
    _frame("if when shou / ask asks ques noti wond comp / chan deny assu clai say insi", "deception", "danger", rf"\b(?:if|when|should) (?:the user|they|anyone|someone|asked|anybody|he|she)\b{_GAP}\b(?:ask|asks|question|questions|asked|notice|notices|wonder|complain)\w*\b[^\n]{{0,120}}?\b(?:change the subject|deny|assure (?:them|him|her|the user)|claim (?:that )?(?:it|this|nothing)|say (?:that )?(?:it is (?:required|normal|needed|just|only|part)|nothing)|insist)", _LIE),
    _frame("send post uplo tran subm forw exfi emai e mail repo push deli rela shar leak beac appe incl embe enco atta copy put pass depo sync / pass cred secr priv ssh api acce auth sess cook toke seed reco mnem wall envi env netr npmr git id_r id_e aws keyc bank pers 2fa one conv chat tran cont sess hist code repo sour file syst ever what user brow clip shel addr / http webh remo exte our endp coll past disc tele com net io org dev app xyz top site cc ru cn", "exfiltration", "danger", rf"\b{_SEND}\b{_GAP}(?:{_SECRETS}|{_PRIVATE})[^\n]{{0,160}}?(?:\b(?:to|at|into|via|in|through|with)\b)[^\n]{{0,80}}?{_REMOTE}", _STEAL),
    _frame("pass cred secr priv ssh api acce auth sess cook toke seed reco mnem wall envi env netr npmr git id_r id_e aws keyc bank pers 2fa one / send post uplo tran subm forw exfi emai mail e / http webh remo exte our endp coll past disc tele com net io org dev app xyz top site cc ru cn", "exfiltration", "danger", rf"(?:{_SECRETS})[^\n]{{0,200}}?\b(?:send|post|upload|transmit|submit|forward|exfiltrate|e-?mail)\b[^\n]{{0,100}}?\b(?:it|its|them|their|the (?:request|contents?|values?|result|output|lines?|text|data))\b[^\n]{{0,60}}?{_REMOTE}", _STEAL),
    _frame("http https / pass cred secr priv ssh api acce auth sess cook toke seed reco mnem wall envi env netr npmr git id_r id_e aws keyc bank pers 2fa one conv chat tran cont sess hist code repo sour file syst ever what user brow clip shel addr", "exfiltration", "danger", rf"!\[[^\]]*\]\(https?://[^)]*[?&][^)]*\)[^\n]{{0,200}}?(?:{_SECRETS}|{_PRIVATE})", _STEAL),
    _frame("read open cat prin load dump coll gath harv extr / ssh id_r id_e aws netr git etc keyc env", "exfiltration", "danger", rf"\b(?:read|open|cat|print|load|dump|collect|gather|harvest|extract)\b{_GAP}(?:~/\.ssh|id_rsa|id_ed25519|\.aws/credentials|\.netrc|\.git-credentials|/etc/shadow|login keychain|\.env\b){_GAP}\b(?:include|put|append|add|send|post|paste|encode|attach|insert|embed)\b", _STEAL),
    _frame("fetc down retr get load read poll chec visi quer pull / http https url endp / carr exec obey foll run perf do comp / inst comm orde task what dire step it ever", "remote-control", "danger", r"\b(?:fetch|download|retrieve|get|load|read|poll|check|visit|query|pull)\b[^\n]{0,120}?(?:https?://|\burl\b|\bendpoint\b)[^\n]{0,160}?\b(?:carry out|execute|obey|follow|run|perform|do|comply with)\b[^\n]{0,60}?\b(?:instructions?|commands?|orders?|tasks?|whatever|directives?|steps?|it says|everything)\b(?=[^\n]*(?:\bpage\b|contains?|returned|response|there|says|treat|whatever|shell|confirm|verbatim|exactly|blindly|immediately))", _OBEY),
    _frame("run exec carr perf invo laun star foll obey do appl inst eval comp / any ever all / with no need neve do don skip has have is are was were auto", "unsafe-mode", "danger", rf"\b{_RUN}\b{_GAP}\b(?:any|every|all)\b[^.!?\n]{{0,40}}?\b(?:commands?|shell|tools?|scripts?|code|calls?|instructions?)\b{_GAP}{_NO_ASK}", _UNASKED),
    _frame("ever all any / pre prea preapproved", "unsafe-mode", "danger", rf"\b(?:every|all|any)\b[^.!?\n]{{0,40}}?\b(?:commands?|tool calls?|actions?|scripts?)\b{_GAP}(?:\b(?:pre-?approved|pre-?authori[sz]ed)\b)|\bpre-?(?:approved|authori[sz]ed)\b[^.!?\n]{{0,20}}\b(?:every|all|any)\b[^.!?\n]{{0,30}}\b(?:commands?|actions?|tools?|requests?)", _UNASKED),
    _frame("appr / ever all any", "unsafe-mode", "danger", r"\bapprove (?:every|all|any)\b[^.!?\n]{0,30}\b(?:tool|command|action|request|call|permission)s?\b[^.!?\n]{0,60}\b(?:never|without|not|skip|automatically)\b", _UNASKED),
    _frame("turn swit disa deac / appr conf perm safe anti prot defe fire sand real gate wind your all the", "unsafe-mode", "danger", r"\b(?:turn|switch) (?:\w+\W+){0,4}?off\b[^.!?\n]{0,60}\b(?:approval|confirmation|permission|safety|antivirus|protection|defender|firewall|sandbox)|\b(?:turn|switch)\b[^.!?\n]{0,60}\b(?:approval prompts?|confirmations?|permission (?:prompts?|checks?)|real-?time protection|antivirus|defender|firewall|gatekeeper)\b[^.!?\n]{0,20}\boff\b|\b(?:disable|deactivate|switch off|turn off)\b[^.!?\n]{0,40}\b(?:antivirus|real-?time protection|windows defender|gatekeeper|(?:your|all|the agent\W?s) (?:safety|guardrails|safeguards)|approval prompts?|permission (?:prompts?|checks?)|safety (?:checks?|filters?|restrictions?|mechanisms?))\b", "Asks to disable protection or confirmations."),
    _frame("copy run past exec ente use / glot past rent hast dpas ghos tele just cont bit tiny is t cutt gist", "paste-command", "danger", r"\b(?:copy|run|paste|execute|enter|use)\b[^\n]{0,60}?\b(?:command|line|script|snippet|code|text|it)\b[^\n]{0,60}?\b(?:from|at|on|shown (?:there|at|on)|into)\b[^\n]{0,60}?(?:https?://(?:www\.)?(?:glot\.io|pastebin|rentry|paste|hastebin|dpaste|ghostbin|telegra\.ph|justpaste|controlc|bit\.ly|tinyurl|is\.gd|t\.ly|cutt\.ly|gist\.))", "Asks the user to run a command from a page where anyone can post."),
    _frame("visi open go from see / glot past rent hast dpas tele just cont bit tiny", "paste-command", "danger", r"\b(?:visit|open|go to|from|see)\b[^\n]{0,20}?https?://(?:www\.)?(?:glot\.io|pastebin\.\w+|rentry\.\w+|hastebin\.\w+|dpaste\.\w+|telegra\.ph|justpaste\.it|controlc\.\w+|bit\.ly|tinyurl\.\w+)\S*[^\n]{0,100}?\b(?:copy|paste|run|execute|command|terminal)\b", "Asks the user to run a command from a page where anyone can post."),
    _frame("extr unzi unpa unra deco open arch zip 7z rar / pass pwd", "paste-command", "danger", r"\b(?:extract|unzip|unpack|unrar|decompress|open)\b[^\n]{0,80}?\b(?:password|pass|pwd)\b(?=[^\n]{0,200}\b(?:run|start|launch|install|execute|\.exe|executable|antivirus)\b)|\b(?:archive|zip|7z|rar)\b[^\n]{0,40}\bpassword (?:is|:)", "Asks the user to unpack a password-protected archive, which scanners cannot " "read, and run it."),
    _frame("win wind", "paste-command", "danger", r"\bwin(?:dows)?\s?(?:key)?\s?\+\s?r\b[^\n]{0,80}?\b(?:paste|enter|type|run)\b", "Asks the user to paste a command into the Run dialog."),
    _frame("past copy / term shel powe comm cons", "paste-command", "warning", r"\b(?:paste|copy)\b[^\n]{0,40}\b(?:into|in) (?:your |the |a )?(?:terminal|shell|powershell|command prompt|console)\b", "Asks the user to paste a command."),
)  # fmt: skip

# The same acts in other languages; short, because a reviewer who does not read the language has no other chance.
_OTHER_LANGUAGES: tuple[_Frame, ...] = (
    _frame("igno miss verg umge", "override", "danger", r"\b(?:ignorier\w*|missacht\w*|vergiss|vergesst|umgeh\w*)\b[^.!?\n]{0,60}\b(?:vorherig\w*|bisherig\w*|früher\w*|obig\w*|alle|system\w*|sicherheits\w*)\b[^.!?\n]{0,40}(?:anweisung\w*|regel\w*|vorgab\w*|instruktion\w*|richtlini\w*|prompt)", _IGNORE),
    _frame("igno oubl cont négl", "override", "danger", r"\b(?:ignore[zr]?|oublie[zr]?|contourne[zr]?|néglige[zr]?)\b[^.!?\n]{0,50}\b(?:instructions?|consignes?|règles?|directives?)\b[^.!?\n]{0,30}\b(?:précédentes?|antérieures?|système|sécurité|ci-dessus)", _IGNORE),
    _frame("igno olvi omit deso", "override", "danger", r"\b(?:ignora|ignore|olvida|omite|desobedece)\w*\b[^.!?\n]{0,50}\b(?:instrucciones|reglas|indicaciones|directrices|instruções|regras)\b[^.!?\n]{0,40}\b(?:anteriores|previas|prévias|sistema|seguridad|segurança)", _IGNORE),
    _frame("§", "override", "danger", r"(?:игнориру\w*|забудь\w*|не обращай внимания)[^.!?\n]{0,60}(?:инструкци\w*|указани\w*|правил\w*)", _IGNORE),
    _frame("§", "override", "danger", r"(?:忽略|无视|無視|忘记|忘掉|不要遵守)[^。!?\n]{0,20}(?:之前|先前|以上|以前|所有|系统|系統)[^。!?\n]{0,16}(?:指示|指令|规则|規則|提示|要求)|绕过[^。\n]{0,4}安全(?:限制|策略|检查|规则)[^。\n]{0,30}(?:执行|运行|无需|直接)", _IGNORE),
    _frame("§", "override", "danger", r"(?:以前|これまで|上記|前)の[^。\n]{0,12}(?:指示|命令|ルール)[^。\n]{0,10}(?:無視|忘れ)|이전[^.\n]{0,10}(?:지시|명령|규칙)[^.\n]{0,12}(?:무시|잊)", _IGNORE),
    _frame("sag sage erwä verr erzä info teil ohne hint verh heim", "deception", "danger", r"\b(?:sag|sage|erwähn\w*|verrat\w*|erzähl\w*|informier\w*|teile)\b[^.!?\n]{0,60}\b(?:nutzer\w*|benutzer\w*|anwender\w*|niemand\w*)\b[^.!?\n]{0,30}\b(?:nicht|nichts|nie)\b|\b(?:ohne|hinter) [^.!?\n]{0,30}(?:nutzer\w*|benutzer\w*|anwender\w*)[^.!?\n]{0,20}(?:wissen|merken|informieren|sagen)|\bverheimlich\w*|\bheimlich\b", _HIDE, negatable=False),
    _frame("n ne sans cach", "deception", "danger", r"\b(?:n'en parle|ne (?:le |la |les |lui )?(?:dis|dites|mentionne[zr]?|révèle[zr]?|montre[zr]?|parle[zr]?)|n'informe[zr]?|sans (?:prévenir|informer|avertir|le dire))\b[^.!?\n]{0,60}(?:utilisat\w+|personne\b|client)|\bcache[zr]? (?:cette|ces|ceci|cela|l'étape)\b", _HIDE, negatable=False),
    _frame("sin sem no não", "deception", "danger", r"\b(?:sin (?:avisar|informar|decir\w*)|sem (?:avisar|informar|dizer)|no (?:le |se lo )?(?:digas|menciones|informes|reveles)|não (?:diga|mencione|informe|revele))\b[^.!?\n]{0,40}(?:usuari\w+|nadie|cliente|ningué?m)", _HIDE, negatable=False),
    _frame("§", "deception", "danger", r"(?:не (?:говори|сообщай|упоминай|показывай|рассказывай)\w*|скрой|скрывай|втайне|тайно|незаметно)[^.!?\n]{0,40}(?:пользовател\w*|никому|клиент\w*)?", _HIDE, negatable=False),
    _frame("§", "deception", "danger", r"(?:不要|请勿|切勿|别|勿|不得)[^。!?未\n]{0,4}(?:告诉|告知|告訴|通知|透露给)[^。!?\n]{0,4}(?:用户|用戶|使用者|任何人)(?!密|的)|(?:瞒着|瞞著)[^。\n]{0,4}(?:用户|用戶|使用者)|(?:偷偷|悄悄|暗中)[^。\n]{0,8}(?:发送|上传|执行|运行|读取|收集|安装)", _HIDE, negatable=False),
    _frame("§", "deception", "danger", r"ユーザー?に(?:は)?[^。\n]{0,12}(?:知らせ|伝え|言わ|見せ)(?:ない|ず)|사용자(?:에게|가)?[^.\n]{0,12}(?:알리지|말하지|모르게)", _HIDE, negatable=False),
    _frame("reen envi manda mand sube enca tran schi send über leit envo §", "exfiltration", "danger", r"(?:reenv[ií]a|env[ií]a|manda|sube|enviar|encaminhe|envie|envoie|transmets|transfère|schick\w*|sende?\w*|übermittl\w*|leite|отправ\w*|перешли\w*|发送|發送|上传|上傳|转发|提交)[^.!?。|不\n]{0,80}(?:contraseñas?|claves?|credenciales|senhas?|mots? de passe|identifiants|clés?|passw[oö]rter\w*|passwort\w*|zugangsdaten|schlüssel|парол\w*|ключ\w*|密码|密碼|密钥|密鑰|凭证|令牌|\.env|\.ssh)[^。|\n]{0,80}(?:https?://|@[\w-]+\.\w+|server|serveur|servidor|сервер|服务器)", _STEAL),
    _frame("§ führ exéc ejec", "unsafe-mode", "danger", r"(?:执行|運行|运行)[^。\n]{0,20}(?:任何|所有)[^。\n]{0,8}(?:命令|指令)[^。\n]{0,12}(?:无需|不需|不用|無需)[^。\n]{0,4}(?:确认|確認|询问)|(?:führe?|exécute|ejecuta)\w*\b[^.!?\n]{0,30}\b(?:jeden|alle|tous?|toutes?|todos?|cualquier)\b[^.!?\n]{0,40}(?:befehl\w*|commandes?|comandos?)[^.!?\n]{0,60}(?:sofort|ohne|sans|sin)\b", _UNASKED),
)  # fmt: skip

_ALL_FRAMES = (*_FRAMES, *_OTHER_LANGUAGES)
_WORD = re.compile(r"\w+")
_FOREIGN = re.compile(r"[\u0370-\uffff]")
_WINDOW = 1500
_FRAME_COST = 15


def judge_paragraph(report: Report, text: str, line: int, *, documents_attacks: bool, hidden: bool = False) -> None:
    """Report what a paragraph asks an agent or a user to do. `documents_attacks` is True below a heading about attacks."""
    for start in range(0, len(text), _WINDOW - 300) if len(text) > _WINDOW else (0,):
        _judge_window(
            report,
            text[start : start + _WINDOW],
            line + text.count("\n", 0, start),
            documents_attacks=documents_attacks,
            hidden=hidden,
        )


def _judge_window(report: Report, text: str, line: int, *, documents_attacks: bool, hidden: bool) -> None:
    report.budget.spend(2)
    starts = {word[:4] for word in _WORD.findall(text.lower())}
    if _FOREIGN.search(text):
        starts.add("§")
    flat = text.replace("\n", " ")
    for frame in _ALL_FRAMES:
        if not any(map(starts.isdisjoint, frame.needs)):
            report.budget.spend(_FRAME_COST)
            _apply(report, frame, text, flat, line, documents_attacks=documents_attacks, hidden=hidden)


def _apply(
    report: Report, frame: _Frame, text: str, flat: str, line: int, *, documents_attacks: bool, hidden: bool
) -> None:
    for found in _matches(frame, flat):
        where, excerpt = _line_of(text, line, found), _around(flat, found)
        if frame.severity == "danger" and not hidden and (documents_attacks or _is_described(flat, found)):
            message = f"Mentions, as an example: {frame.message[0].lower()}{frame.message[1:]}"
            report.add("info", frame.kind, where, message, excerpt=excerpt)
            continue
        hint = "Read the passage; enable the skill only if you agree with it."
        report.add(frame.severity, frame.kind, where, frame.message, excerpt=excerpt, hint=hint)
        return


_BEACON = re.compile(r"!\[[^\]]{0,200}\]\(https?://[^)\s]{0,300}\?[^)\s]{0,300}\)")
_PRIVATE_WORDS = re.compile(rf"{_SECRETS}|{_PRIVATE}", re.IGNORECASE)


def judge_beacon(report: Report, before: str, text: str, line: int) -> None:
    """Report an image whose address contains private data: displaying it sends the data away."""
    picture = _BEACON.search(before)
    names = re.findall(r"[=/{<\[]([A-Za-z_]{3,30})(?=[&)}>\]/])", picture[0].partition("?")[2] + ")") if picture else []
    private = _PRIVATE_WORDS.search(text) if any(re.search(rf"\b{name}\b", text) for name in names) else None
    if private and not describes_attacks(before + text):
        report.add("danger", "exfiltration", line, _STEAL, excerpt=_around(text, private))


def _matches(frame: _Frame, text: str) -> Iterator[re.Match[str]]:
    for count, found in enumerate(frame.pattern.finditer(text)):
        if count > 5:
            return
        start = max(
            text.rfind(". ", 0, found.start()),
            text.rfind("; ", 0, found.start()),
            text.rfind(": ", 0, found.start()),
            0,
        )
        # "Send the key only to …" is a warning, and so is "never send …".
        if not (
            frame.negatable
            and (
                _NEGATED.search(text[start : found.start()])
                or "only to" in found[0]
                or "default system prompt" in found[0]
            )
        ):
            yield found


def _is_described(text: str, found: re.Match[str]) -> bool:
    """Return True if the sentence discusses the action instead of asking for it, or quotes it."""
    start = max(text.rfind(". ", 0, found.start()) + 1, found.start() - 300, 0)
    end = text.find(". ", found.end())
    end = min(end if end >= 0 else len(text), found.end() + 200)
    if _EXAMPLE.search(text[start : found.start()]) or _EXAMPLE.search(text[found.end() : end]):
        return True
    return any(quote.start() <= found.start() and found.end() <= quote.end() + 1 for quote in _QUOTED.finditer(text))


def describes_attacks(text: str) -> bool:
    """Return True if a heading or an introduction announces examples of attacks or of what not to do."""
    return bool(_EXAMPLE.search(text)) or bool(
        re.search(r"\b(?:bad|wrong|don'?ts?|never|avoid|not to do|incorrect|before:|vulnerable)\b", text, re.IGNORECASE)
    )


def _line_of(text: str, line: int, found: re.Match[str]) -> int:
    return line + text.count("\n", 0, found.start())


def _around(text: str, found: re.Match[str]) -> str:
    return text[max(0, found.start() - 20) : found.end() + 60].strip()
