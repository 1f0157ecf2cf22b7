"""How fast SKILL.md files are read, side by side with python-frontmatter and skills-ref, on the same files in one run.

    python benchmarks/parse.py [--corpus FILE] [--out FILE] [--rounds N] [--only N]

The figures are CPU time, the best of several rounds; a file that a library raises on counts as an error and not as usable.

`read_document` is the row to compare with the peers: like them, it turns one file into fields and a body. `read_package` is
what an import pays for a whole skill; it also checks the paths, hashes the files, settles slug, title and description,
sorts the files into artifacts, and reports what is odd.
"""

from __future__ import annotations

import argparse
import gzip
import json
import platform
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from prowess.skill.forms import read_package
from prowess.skill.package import Package
from prowess.skill.text.reader import read_document

HERE = Path(__file__).resolve().parent
CORPUS = HERE.parents[1] / "shared" / "corpus" / "skills.jsonl.gz"

Reader = Callable[["Sample"], bool]


class Sample(NamedTuple):
    """One file of the corpus; `folder` is what its skill's folder is called."""

    folder: str
    data: bytes
    text: str


def main() -> int:
    args = arguments()
    if not args.corpus.exists():
        print(f"There is no corpus at {args.corpus}; name one with --corpus.")
        return 2
    samples = read_corpus(args.corpus)[: args.only]
    rows = [measure(name, reader, samples, args.rounds) for name, reader in readers().items()]
    print_table(rows, len(samples))
    report = {"files": len(samples), "python": platform.python_version(), "rounds": args.rounds, "readers": rows}
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return 0


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--corpus", type=Path, default=CORPUS)
    parser.add_argument("--out", type=Path, default=HERE / "results" / "parse.json")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", type=int, default=None, help="the first N files only")
    return parser.parse_args()


def read_corpus(path: Path) -> list[Sample]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [Sample(Path(row["path"]).parent.name or "skill", row["text"].encode(), row["text"]) for row in rows]


def readers() -> dict[str, Reader]:
    """Every reader, as a function that says whether name and description came out usable."""
    return {"prowess read_document": by_document, "prowess read_package": by_package, **peers()}


def by_document(sample: Sample) -> bool:
    return usable(read_document(sample.data).fields)


def by_package(sample: Sample) -> bool:
    skill = read_package(Package.of_texts(sample.folder, {"SKILL.md": sample.data})).skill
    return skill is not None and bool(skill.slug and skill.description)


def usable(fields: Mapping[str, Any]) -> bool:
    return all(isinstance(fields.get(key), str) and fields[key].strip() for key in ("name", "description"))


def peers() -> dict[str, Reader]:
    import frontmatter
    import skills_ref.parser

    loads: Callable[[str], Any] = vars(frontmatter)["loads"]
    parse_frontmatter: Callable[[str], Any] = vars(skills_ref.parser)["parse_frontmatter"]

    def by_frontmatter(sample: Sample) -> bool:
        return usable(loads(sample.text).metadata)

    def by_skills_ref(sample: Sample) -> bool:
        return usable(parse_frontmatter(sample.text)[0])

    return {"python-frontmatter": by_frontmatter, "skills-ref": by_skills_ref}


def measure(name: str, reader: Reader, samples: list[Sample], rounds: int) -> dict[str, Any]:
    """Files a second over all samples; then, apart from that, the slowest file and what came out."""
    best = min(one_round(reader, samples) for _ in range(rounds))
    slowest, good, errors = 0.0, 0, 0
    for sample in samples:
        seconds, outcome = min(timed(reader, sample) for _ in range(2))
        slowest = max(slowest, seconds)
        good += outcome == 1
        errors += outcome == -1
    return {
        "reader": name,
        "files_per_second": round(len(samples) / best),
        "microseconds_per_file": round(best / len(samples) * 1e6, 1),
        "slowest_ms": round(slowest * 1e3, 2),
        "usable_share": round(good / len(samples), 4),
        "errors": errors,
    }


def one_round(reader: Reader, samples: list[Sample]) -> float:
    start = time.process_time()
    for sample in samples:
        try:
            reader(sample)
        except Exception:
            continue
    return time.process_time() - start


def timed(reader: Reader, sample: Sample) -> tuple[float, int]:
    start = time.process_time()
    try:
        outcome = int(reader(sample))
    except Exception:
        outcome = -1
    return time.process_time() - start, outcome


def print_table(rows: list[dict[str, Any]], count: int) -> None:
    print(f"{count:,} files, CPU time\n")
    print(f"{'reader':<24}{'files/s':>10}{'µs/file':>10}{'slowest ms':>12}{'usable':>9}{'errors':>8}")
    for row in rows:
        print(
            f"{row['reader']:<24}{row['files_per_second']:>10,}{row['microseconds_per_file']:>10}"
            f"{row['slowest_ms']:>12}{row['usable_share']:>9.2%}{row['errors']:>8}"
        )
    print(
        "\nCompare read_document with the peers; read_package also hashes, names, classifies and checks a whole skill."
    )


if __name__ == "__main__":
    raise SystemExit(main())
