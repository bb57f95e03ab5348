"""Runs fuzzers at the same time, one per core, and prints what each did.

    python3 run.py PROGRAMS WORK CORPUS MINUTES [TARGET…]

PROGRAMS has the programs fuzz_TARGET. What they find interesting is kept in WORK/corpus, what breaks a property in
WORK/findings; CORPUS has the inputs that everyone starts from. The minutes are of the whole run. Exits with 1 where something
was found, now or in an earlier run, and names it with the command that repeats it.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import time

LIMITS = ["-timeout=20", "-rss_limit_mb=4096", "-malloc_limit_mb=1024", "-print_final_stats=1"]
# Inputs longer than this are not made up.
LONGEST = {"report_page": 20000, "cifar": 800, "optimizer_archive": 64, "step": 64, "archive_bytes": 32}


def fuzz(program, target, work, corpus, seconds):
    """Runs one fuzzer for so long. Returns its executions and its last lines."""
    own, found = work / "corpus" / target, work / "findings" / target
    for folder in (own, found):
        folder.mkdir(parents=True, exist_ok=True)
    # Beyond a finding the fuzzer goes on with the next one in a new process.
    executions, output, end = 0, "", time.monotonic() + seconds
    while (left := int(end - time.monotonic())) > 0:
        done = subprocess.run([program, *LIMITS, f"-max_total_time={left}", f"-max_len={LONGEST.get(target, 4096)}",
                               f"-artifact_prefix={found}/", own, corpus / target], capture_output=True, text=True,
                              errors="replace", env=dict(os.environ, OMP_NUM_THREADS="1"))
        output = done.stderr
        counted = re.findall(r"number_of_executed_units: *(\d+)", output)
        executions += int(counted[-1]) if counted else 0
        if done.returncode == 0 or not any(found.iterdir()):
            break
        if len(list(found.iterdir())) >= 5:
            break
    return executions, output, done.returncode


def main():
    programs, work, corpus = (pathlib.Path(word) for word in sys.argv[1:4])
    minutes, chosen = float(sys.argv[4]), sys.argv[5:]
    there = {path.name[len("fuzz_"):]: path for path in sorted(programs.glob("fuzz_*"))}
    if unknown := [name for name in chosen if name not in there]:
        sys.exit(f"there is no fuzz target {', '.join(unknown)}; the targets are {', '.join(there)}")
    targets = chosen or list(there)
    cores = min(os.cpu_count() or 1, len(targets))
    seconds = max(5, minutes * 60 * cores / len(targets))
    print(f"{len(targets)} targets, {seconds:.0f} s each, {cores} at a time", flush=True)
    broken, total = [], 0
    with concurrent.futures.ThreadPoolExecutor(cores) as pool:
        runs = {name: pool.submit(fuzz, there[name], name, work, corpus, seconds) for name in targets}
        print(f"{'target':20} {'executions':>12} {'corpus':>8} {'findings':>8}", flush=True)
        for name, run in runs.items():
            executions, output, status = run.result()
            total += executions
            found = sorted((work / "findings" / name).iterdir())
            print(f"{name:20} {executions:12,} {len(list((work / 'corpus' / name).iterdir())):8,} {len(found):8,}", flush=True)
            broken += [f"{path}\n    repeat it with: {there[name]} {path}" for path in found]
            if status and not found:
                broken.append(f"{name} ended with {status}:\n{output[-2000:]}")
    print(f"{'all':20} {total:12,}")
    for line in broken:
        print("FOUND", line)
    sys.exit(1 if broken else 0)


if __name__ == "__main__":
    main()
