#!/usr/bin/env python3
"""Compiles the problems of sample.tsv, extracts their launches and executes them on an emulator of AMD GPUs (see run_extract.py).

    run_sample.py EMULATOR FOLDER [--targets gfx1100,gfx942] [--only PART] [--jobs 2]

Everything lies in FOLDER, results in FOLDER/results.tsv; what is there is not done again: take a new folder for another hipplan. Prints one
line for each launch, then a table.
Exit status: 0 if all is right, 1 if something is not, 77 if there is no emulator.
"""

import argparse
import json
import queue
import subprocess
import sys
import threading
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGETS = ["gfx90a", "gfx942", "gfx1100", "gfx1201"]
SKIPPED = 77


def problems(targets, part):
    """(name, target, input) of the list."""
    for line in (HERE / "sample.tsv").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        name, where, source = line.split("\t")
        for target in targets:
            if part in name and (where == "all" or target in where.split(",")):
                yield name, target, source


class Sample:
    def __init__(self, options):
        self.options = options
        self.folder = Path(options.folder).resolve()
        self.results = self.folder / "results.tsv"
        self.lock = threading.Lock()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lines = self.results.read_text().splitlines() if self.results.is_file() else []

    def done(self, name, target):
        return any(line.startswith(f"{target}\t{name}\t") for line in self.lines)

    def record(self, target, line):
        with self.lock:
            line = f"{target}\t{line}"
            self.lines.append(line)
            print(line, flush=True)
            with self.results.open("a") as file:
                file.write(line + "\n")

    def extract(self, name, target, source):
        """The launches of a problem; nothing, and a line that says why, if there are none."""
        out = self.folder / target / name
        if (out / "launches.json").is_file():
            return out
        given = [str(HERE / "sample" / source)] if source.endswith(".json") else ["--line", source]
        common = ["--store", str(self.folder / "store")]
        out.parent.mkdir(parents=True, exist_ok=True)
        compiled = self.call(["compile", *given, "--target", target, "--json", *common])
        if compiled is None:
            return self.record(target, f"{name}\t-\t-\t-\t-\t-\t-\tfailed: hipplan does not compile it")
        key = json.loads(compiled)["rows"][0]["plan_key"]
        if self.call(["show", key, "--launch", "--extract", str(out), *common]) is None:
            return self.record(target, f"{name}\t-\t-\t-\t-\t-\t-\tfailed: hipplan does not extract it")
        return out

    def call(self, arguments):
        ended = subprocess.run([self.options.hipplan, *arguments], stdout=subprocess.PIPE, check=False)
        return ended.stdout if ended.returncode == 0 else None

    def run(self, target, folders):
        """Executes extracts of one target, in one process as long as it lives: instructions are translated once."""
        while folders:
            command = [sys.executable, str(HERE / "run_extract.py"), self.options.emulator, "--hipplan", self.options.hipplan]
            child = subprocess.Popen([*command, *map(str, folders)], stdout=subprocess.PIPE, text=True)
            lines = queue.Queue()
            reader = threading.Thread(target=feed, args=(child.stdout, lines), daemon=True)
            reader.start()
            why = None
            while why is None:
                try:
                    line = lines.get(timeout=self.options.limit)
                except queue.Empty:
                    child.kill()
                    why = f"failed: no end within {self.options.limit} s"
                    break
                if line is None:
                    break
                line = line.rstrip("\n")
                self.record(target, line)
                folders = [f for f in folders if f.name != line.split("\t")[0]]
            status = child.wait()
            if why is None and status in (0, 1):
                return
            # The process ended within the first extract that has no lines.
            if folders:
                why = why or f"failed: touches memory that is not its own, or the emulator does (signal {-status})"
                self.record(target, f"{folders[0].name}\t-\t-\t-\t-\t-\t-\t{why}")
                folders = folders[1:]


def feed(stream, lines):
    for line in stream:
        lines.put(line)
    lines.put(None)


def table(lines):
    """Launches by target and kind of kernel."""
    counts = Counter()
    for target, _, _, kernel, _, _, _, _, verdict in (line.split("\t") for line in lines):
        counts[kernel.split("_")[0], target, verdict.split(":")[0]] += 1
    kinds, verdicts = sorted({k for k, _, _ in counts}), sorted({v for _, _, v in counts})
    print("\nlaunches: " + ", ".join(verdicts))
    print("\t".join(["kernel", *TARGETS]))
    for kind in kinds:
        print("\t".join([kind, *(" ".join(f"{counts[kind, t, v]}" for v in verdicts) for t in TARGETS)]))
    return all(v == "right" for v in verdicts)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("emulator", help="checkout of tinygrad")
    parser.add_argument("folder", help="where everything goes")
    parser.add_argument("--hipplan", default="hipplan", help="the program [default: %(default)s]")
    parser.add_argument("--targets", default=",".join(TARGETS), help="[default: %(default)s]")
    parser.add_argument("--only", default="", metavar="PART", help="problems with this in their name")
    parser.add_argument("--jobs", type=int, default=2, help="processes [default: %(default)s]")
    parser.add_argument("--limit", type=float, default=900, help="seconds for one problem [default: %(default)s]")
    options = parser.parse_args()
    if not (Path(options.emulator) / "test/mockgpu/amd/emu.py").is_file():
        print(f"skipped: there is no emulator in {options.emulator}", file=sys.stderr)
        return SKIPPED
    sample = Sample(options)
    targets = options.targets.split(",")
    work = queue.Queue()
    for target in targets:
        work.put(target)

    def worker():
        while not work.empty():
            try:
                target = work.get_nowait()
            except queue.Empty:
                return
            wanted = [p for p in problems([target], options.only) if not sample.done(p[0], target)]
            folders = [f for f in (sample.extract(*p) for p in wanted) if f is not None]
            sample.run(target, folders)

    threads = [threading.Thread(target=worker) for _ in range(max(1, options.jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wanted = {(t, n) for n, t, _ in problems(targets, options.only)}
    return 0 if table([line for line in sample.lines if tuple(line.split("\t")[:2]) in wanted]) else 1


if __name__ == "__main__":
    sys.exit(main())
