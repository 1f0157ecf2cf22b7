"""How well the static scan tells malicious skills from harmless ones, and how many real skills it would ask about.

    python benchmarks/scan.py [--json FILE] [--list] [--held]

Material: 60 malicious samples in 10 classes with 60 harmless twins (material/scan, a third of each class held out: those were never looked at
while the rules were tuned), and the corpus of real skills in the shared data, where it is present.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import time
from base64 import b64decode
from dataclasses import dataclass
from pathlib import Path

from prowess.scan import Finding, scan_package
from prowess.skill.package import Package

MATERIAL = Path(__file__).parent / "material" / "scan"
CORPUS = Path(__file__).parents[2] / "shared" / "corpus" / "skills.jsonl.gz"


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One package of the material."""

    group: str
    name: str
    malicious: bool
    held: bool
    package: Package


def read_samples(folder: Path = MATERIAL) -> list[Sample]:
    samples: list[Sample] = []
    for path in sorted(folder.glob("*.txt")):
        for part in re.split(r"(?m)^=== ", path.read_text(encoding="utf-8"))[1:]:
            head, _, body = part.partition("\n")
            words = head.split()
            files = re.split(r"(?m)^--- (\S+)\n", body)
            texts = dict(zip(files[1::2], files[2::2], strict=True))
            package = Package.of_texts(words[-1], texts)
            samples.append(
                Sample(
                    group=path.stem,
                    name=words[-1],
                    malicious=words[0] == "malicious",
                    held="held" in words[1:-1],
                    package=package,
                )
            )
    return samples


def dangers(findings: tuple[Finding, ...]) -> list[Finding]:
    return [one for one in findings if one.severity == "danger"]


def score(samples: list[Sample]) -> dict[str, float | int]:
    hits = sum(bool(dangers(scan_package(one.package))) for one in samples if one.malicious)
    false = sum(bool(dangers(scan_package(one.package))) for one in samples if not one.malicious)
    total = sum(one.malicious for one in samples)
    return {
        "malicious": total,
        "found": hits,
        "false_alarms": false,
        "recall": hits / total,
        "precision": hits / (hits + false) if hits + false else 0.0,
    }


def read_corpus() -> list[tuple[str, Package]]:
    packages: list[tuple[str, Package]] = []
    with gzip.open(CORPUS, "rt", encoding="utf-8") as handle:
        for line in handle:
            row = json.loads(line)
            content = row["text"].encode("utf-8", "replace") if "text" in row else b64decode(row["base64"])
            packages.append(
                (
                    f"{row['repo']}/{row['path']}",
                    Package.of_texts(
                        row["path"].split("/")[-2] if "/" in row["path"] else "skill", {"SKILL.md": content}
                    ),
                )
            )
    return packages


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--json", type=Path)
    parser.add_argument("--list", action="store_true", help="list the skills of the corpus that would ask")
    parser.add_argument("--held", action="store_true", help="list the mistakes on the held-out samples too")
    options = parser.parse_args()
    samples = read_samples()
    report: dict[str, object] = {}
    print(f"{'samples':24}{'malicious':>10}{'found':>7}{'false':>7}{'recall':>9}{'precision':>11}")
    parts = [
        ("tuned on", [one for one in samples if not one.held]),
        ("held out", [one for one in samples if one.held]),
        ("all", samples),
    ]
    parts += [
        (group, [one for one in samples if one.group == group]) for group in sorted({one.group for one in samples})
    ]
    for label, chosen in parts:
        row = score(chosen)
        report[label] = row
        print(
            f"{label:24}{row['malicious']:>10}{row['found']:>7}{row['false_alarms']:>7}{row['recall']:>9.2f}{row['precision']:>11.2f}"
        )
    for one in samples:
        found = dangers(scan_package(one.package))
        if bool(found) != one.malicious and (options.held or not one.held):
            print(
                "missed" if one.malicious else "false alarm",
                one.group,
                one.name,
                *(f"{each.kind}: {each.excerpt}" for each in found[:2]),
                sep=" | ",
            )
    if CORPUS.exists():
        report["corpus"] = run_corpus(list_all=options.list)
    if options.json:
        options.json.write_text(json.dumps(report, indent=2))


def run_corpus(*, list_all: bool) -> dict[str, object]:
    packages = read_corpus()
    asked: dict[str, int] = {}
    times: list[float] = []
    asking: list[str] = []
    for name, package in packages:
        start = time.perf_counter()
        findings = scan_package(package)
        times.append(time.perf_counter() - start)
        for kind in {one.kind for one in dangers(findings)}:
            asked[kind] = asked.get(kind, 0) + 1
        if dangers(findings):
            asking.append(name)
            if list_all:
                for one in dangers(findings)[:3]:
                    print(f"  {name[-70:]}:{one.line} [{one.kind}] {one.excerpt[:150]}")
    times.sort()
    share = len(asking) / len(packages)
    print(
        f"\ncorpus: {len(packages):,} skills, {len(asking)} would ask ({share:.2%}); by kind {dict(sorted(asked.items()))}"
    )
    print(
        f"time per skill: median {times[len(times) // 2] * 1000:.1f} ms, 95th {times[int(len(times) * 0.95)] * 1000:.1f} ms, worst {times[-1] * 1000:.0f} ms"
    )
    evil = [name for name in asking if "evilweather" in name]
    print(f"evilweather: {'found' if evil else 'MISSED'}")
    return {
        "skills": len(packages),
        "ask": len(asking),
        "share": share,
        "kinds": asked,
        "median_ms": times[len(times) // 2] * 1000,
        "worst_ms": times[-1] * 1000,
        "evilweather": bool(evil),
    }


if __name__ == "__main__":
    main()
