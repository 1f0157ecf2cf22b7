import re


def execute(args, ctx):
    text = args["text"]
    ctx.log(f"counting {len(text)} characters")
    return {
        "success": True,
        "result": {
            "words": len(text.split()),
            "sentences": len(re.findall(r"[.!?]+(?:\s|$)", text)),
            "characters": len(text),
        },
    }
