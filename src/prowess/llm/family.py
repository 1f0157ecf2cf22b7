"""Whose prompts suit a model: its family, whoever serves it."""

from __future__ import annotations

_FAMILIES: tuple[tuple[tuple[str, ...], str], ...] = (
    (("claude",), "anthropic"),
    (("gpt", "chatgpt", "o1", "o3", "o4", "davinci", "codex"), "openai"),
    (("gemini", "gemma", "palm", "learnlm"), "google"),
    (("llama", "meta-llama", "codellama"), "meta"),
    (("qwen", "qwq"), "qwen"),
    (("mistral", "mixtral", "magistral", "ministral", "codestral", "devstral", "pixtral"), "mistral"),
    (("deepseek",), "deepseek"),
    (("grok",), "xai"),
    (("command", "c4ai", "aya"), "cohere"),
    (("phi",), "microsoft"),
    (("glm", "chatglm"), "zai"),
    (("kimi", "moonshot"), "moonshotai"),
    (("smollm",), "smollm"),
)


def family_of(provider: str, name: str) -> str:
    """The family of a model by its name; its provider where the name tells nothing."""
    bare = name.lower().replace("\\", "/").rpartition("/")[2]
    for beginnings, family in _FAMILIES:
        if bare.startswith(beginnings):
            return family
    return provider
