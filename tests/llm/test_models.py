"""Models by name: which names there are, what each needs, and what a skill may ask for."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from prowess.engine.runtime import make_model_config
from prowess.errors import Invalid, NoModel, NotFound, Refused, Unavailable
from prowess.llm.model import ModelConfig, family_of
from prowess.llm.models import Models
from prowess.llm.providers import PROVIDERS
from prowess.settings import read_settings

KEYS = {"OPENAI_API_KEY": "key-of-openai", "ANTHROPIC_API_KEY": "key-of-anthropic", "GEMINI_API_KEY": "key-of-google"}


def models(**config) -> Models:
    return Models(ModelConfig(**{"environment": KEYS, "base_url": "http://127.0.0.1:1/v1", **config}))


def test_all_that_the_settings_say_about_models_is_known_wherever_models_are(tmp_path):
    environment = {
        "HOME": str(tmp_path),
        "PROWESS_HOME": str(tmp_path / "own"),
        "PROWESS_MODEL": "compatible:tiny",
        "PROWESS_EVALUATION_MODEL": "openai:gpt-5",
        "PROWESS_MODEL_URL": "http://127.0.0.1:1/v1",
        "PROWESS_MODEL_KEY": "key-of-a-server",
        "PROWESS_MODEL_REQUESTS_PER_MINUTE": "30",
    }

    config = make_model_config(read_settings(environment))

    assert (config.default, config.evaluation, config.base_url) == (
        "compatible:tiny",
        "openai:gpt-5",
        "http://127.0.0.1:1/v1",
    )
    assert (config.key, config.requests_per_minute, config.home) == ("key-of-a-server", 30, tmp_path / "own")
    assert config.environment["PROWESS_MODEL"] == "compatible:tiny"
    assert "key-of-a-server" not in repr(config)


@pytest.mark.parametrize(
    ("given", "name", "family"),
    [
        ("openai:gpt-5", "openai:gpt-5", "openai"),
        ("gpt-5", "openai:gpt-5", "openai"),
        ("o3", "openai:o3", "openai"),
        ("claude-haiku-5-5", "anthropic:claude-haiku-5-5", "anthropic"),
        ("google:gemini-2.5-pro", "google:gemini-2.5-pro", "google"),
        ("gemini-2.5-pro", "google:gemini-2.5-pro", "google"),
        ("ollama:llama3.2:3b", "ollama:llama3.2:3b", "meta"),
        ("compatible:Qwen/Qwen3-8B", "compatible:Qwen/Qwen3-8B", "qwen"),
        ("compatible:claude-haiku-5-5", "compatible:claude-haiku-5-5", "anthropic"),
        ("compatible:house-model", "compatible:house-model", "compatible"),
    ],
)
def test_a_name_says_who_serves_the_model_and_whose_prompts_suit_it(given, name, family):
    model = models().open(given)

    assert (model.name, model.family) == (name, family)


@pytest.mark.parametrize(
    "name",
    ["llama3", "nobody:gpt-5", "openai:", "openai: gpt", "openai:../x", "google:x?key=y", "google:a//b", ":x", "a" * 5000,
     "openai:gpt\n5", "scripted:", "local:", "https://example.com/v1", "openai:gpt 5"],
)  # fmt: skip
def test_what_is_no_name_of_a_model_is_refused_with_the_forms_that_there_are(name):
    with pytest.raises(Invalid, match="Invalid model name") as caught:
        models().open(name)

    assert all(row.form in caught.value.hint for row in PROVIDERS.values())


def test_without_a_model_the_three_ways_to_choose_one_are_named():
    with pytest.raises(NoModel) as caught:
        models().open("")

    assert all(
        way in caught.value.hint
        for way in ("--model PROVIDER:NAME", "PROWESS_MODEL", "model fetch smollm2", "local:smollm2")
    )


@pytest.mark.parametrize(
    ("name", "variable"),
    [
        ("openai:gpt-5", "OPENAI_API_KEY"),
        ("claude-haiku-5-5", "ANTHROPIC_API_KEY"),
        ("gemini-2.5-pro", "GOOGLE_API_KEY"),
    ],
)
def test_a_key_that_is_not_set_is_named(name, variable, monkeypatch):
    monkeypatch.setenv(variable, "of the process, which is not asked")

    for environment in ({}, {variable: "  "}):
        with pytest.raises(Unavailable, match=f"{variable} is not set"):
            models(environment=environment).open(name)


def test_a_compatible_server_needs_an_address():
    with pytest.raises(Unavailable, match="PROWESS_MODEL_URL is not set"):
        models(base_url="").open("compatible:x")
    for address in ("localhost:8000", "file:///etc/passwd", "http://", "http://[", "http://x:99999"):
        with pytest.raises(Invalid, match="PROWESS_MODEL_URL is not a valid URL"):
            models(base_url=address).open("compatible:x")


def test_a_model_is_opened_once_by_many_threads_and_by_any_of_its_names():
    opened = models()
    found: list[object] = []
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait()
        found.append(opened.open("gpt-5" if number % 2 else "openai:gpt-5"))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len({id(model) for model in found}) == 1


def test_the_models_of_the_settings_are_named():
    chosen = models(default="openai:gpt-5", evaluation="claude-haiku-5-5")

    assert (chosen.default, chosen.evaluation) == ("openai:gpt-5", "claude-haiku-5-5")


@pytest.mark.parametrize(
    "name", ["openai:gpt-5", "claude-haiku-5-5", "ollama:llama3.2", "compatible:a/b", "local:smollm2"]
)
def test_a_skill_may_name_a_model_of_a_provider(name):
    models().check_chooser(name, "A skill")


@pytest.mark.parametrize(
    "name", ["local:/models/x.gguf", "local:../x.gguf", "local:x.gguf", "scripted:x.json", "scripted:/etc/passwd"]
)
def test_a_skill_may_not_name_a_file(name):
    with pytest.raises(Refused, match="may not choose the model"):
        models().check_chooser(name, "A skill")


@pytest.mark.parametrize("name", ["https://example.com/v1", "openai:../../x", "openai:http://x", "/x.gguf", "~/x.gguf"])
def test_a_skill_may_name_neither_an_address_nor_a_path(name):
    with pytest.raises((Refused, Invalid)):
        models().check_chooser(name, "A skill")


def test_no_key_is_in_what_the_configuration_shows():
    config = ModelConfig(environment=KEYS, key="key-of-the-server", base_url="http://127.0.0.1:1/v1")

    opened = Models(config)
    shown = repr(config) + repr(opened) + "".join(repr(opened.open(name)) for name in ("gpt-5", "compatible:x"))

    assert "key-of" not in shown


def test_a_script_that_is_not_there_is_not_found():
    with pytest.raises(NotFound, match="cannot be read"):
        models().open("scripted:/nowhere/script.json")


def test_a_provider_whose_part_is_not_installed_says_how_to_install_it():
    program = (
        "import sys\n"
        "class Absent:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('openai', 'anthropic', 'pydantic_ai', 'google', 'genai_prices'):\n"
        "            raise ModuleNotFoundError(f'No module named {name!r}', name=name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from prowess.llm.model import ModelConfig\n"
        "from prowess.llm.model import Usage\n"
        "from prowess.llm.models import Models\n"
        "from prowess.llm.prices import cost_of\n"
        "from prowess.errors import Unavailable\n"
        "keys = dict.fromkeys(('OPENAI_API_KEY', 'ANTHROPIC_API_KEY', 'GOOGLE_API_KEY'), 'k')\n"
        "models = Models(ModelConfig(environment=keys, base_url='http://127.0.0.1:1/v1'))\n"
        "for name in ('openai:x', 'anthropic:x', 'google:x', 'ollama:x', 'compatible:x'):\n"
        "    try:\n"
        "        models.open(name)\n"
        "    except Unavailable as error:\n"
        "        print(error.hint)\n"
        "print(cost_of('openai:gpt-5', Usage()))\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.split("\n")[:-1] == [
        "Run `pip install 'prowess[openai]'`.",
        "Run `pip install 'prowess[anthropic]'`.",
        "Run `pip install 'prowess[google]'`.",
        "Run `pip install 'prowess[openai]'`.",
        "Run `pip install 'prowess[openai]'`.",
        "None",
    ]


def test_nothing_of_a_provider_is_imported_before_one_of_its_models_is_opened():
    program = (
        "import sys\n"
        "import prowess, prowess.llm.models, prowess.llm.providers, prowess.llm.scripted, prowess.llm.prices\n"
        "heavy = ('pydantic_ai', 'openai', 'anthropic', 'google.genai', 'genai_prices', 'httpx2', 'xllamacpp')\n"
        "print([name for name in heavy if name in sys.modules])\n"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


@pytest.mark.parametrize(
    ("provider", "name", "family"),
    [
        ("openai", "ft:something", "openai"),
        ("ollama", "hf.co/bartowski/Llama-3.2-1B-GGUF", "meta"),
        ("compatible", "mistralai/Mixtral-8x7B", "mistral"),
        ("local", "/models/qwen2.5-coder.gguf", "qwen"),
        ("local", "smollm2", "smollm"),
        ("ollama", "gemma3", "google"),
        ("ollama", "gpt-oss:20b", "openai"),
        ("compatible", "", "compatible"),
    ],
)
def test_the_family_is_told_by_the_name_whoever_serves_it(provider, name, family):
    assert family_of(provider, name) == family
