#!/usr/bin/env python3
"""Checks that every dependency has a licence that deny.toml allows.

Reads the same list that `cargo deny check licenses` reads, and needs nothing but cargo.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

root = Path(__file__).resolve().parent.parent
text = (root / "deny.toml").read_text()
allowed = set(re.findall(r'"([^"]+)"', re.search(r"allow = \[(.*?)\]", text, re.S).group(1)))
excepted = {}
for crate, licences in re.findall(r'\[\[licenses\.exceptions\]\]\ncrate = "([^"]+)"\nallow = \[(.*?)\]', text, re.S):
    excepted[crate] = set(re.findall(r'"([^"]+)"', licences))


def satisfied(expression, allowed):
    """Whether a licence expression can be met with allowed licences: some alternative of which every part is allowed."""
    expression = expression.replace("/", " OR ").replace("(", " ( ").replace(")", " ) ")
    tokens = re.sub(r"(\S+) WITH (\S+)", r"\1-WITH-\2", expression).split()

    def any_of(at):
        good, at = all_of(at)
        while at < len(tokens) and tokens[at] == "OR":
            more, at = all_of(at + 1)
            good = good or more
        return good, at

    def all_of(at):
        good, at = one(at)
        while at < len(tokens) and tokens[at] == "AND":
            more, at = one(at + 1)
            good = good and more
        return good, at

    def one(at):
        if tokens[at] == "(":
            good, at = any_of(at + 1)
            return good, at + 1
        return tokens[at].replace("-WITH-", " WITH ") in allowed, at + 1

    return any_of(0)[0]


metadata = json.loads(subprocess.check_output(["cargo", "metadata", "--format-version", "1", "--locked"], cwd=root))
bad = [p for p in metadata["packages"] if not satisfied(p.get("license") or "none", allowed | excepted.get(p["name"], set()))]
for package in bad:
    print(f"{package['name']} {package['version']}: licence {package.get('license')!r} is not allowed by deny.toml")
print(f"{len(metadata['packages'])} packages, {len(bad)} with a licence that is not allowed")
sys.exit(1 if bad else 0)
