"""Time and memory of ``headwater fit`` against the number of rows of a Parquet file, up to 100 million.

``python benchmarks/fit.py`` writes logs of 20 arms, 5 segments and about 20 rewards per unit to a temporary folder, fits each
in a process of its own, and writes the table into docs/fit.md. ``--rows 1000000 --dry`` tries a smaller size and only prints.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

PAGE = Path(__file__).parent.parent / "docs" / "fit.md"
PIECE = 1_000_000
WAYS = {
    "segment column": ["--segment", "segment"],
    "features": ["--features", "age,income", "--segments", "5"],
    "units": ["--unit", "unit", "--segments", "5"],
}


def write_log(path: Path, rows: int) -> None:
    """A log in pieces of a million rows, a row group each: rewards are gamma, their scale depends on arm and segment."""
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.5, 2.0, (20, 5))
    arms, segments = (pa.array([f"{word} {i}" for i in range(n)]) for word, n in (("arm", 20), ("segment", 5)))
    writer = None
    for _ in range(max(1, rows // PIECE)):
        size = min(rows, PIECE)
        unit = rng.integers(0, max(rows // 20, 20), size)
        segment = (unit * 2654435761 % 2**32) * 5 // 2**32
        arm = rng.integers(0, 20, size)
        table = pa.table(
            {
                "unit": pa.array(unit.astype(np.int32)),
                "arm": pa.DictionaryArray.from_arrays(arm.astype(np.int8), arms),
                "segment": pa.DictionaryArray.from_arrays(segment.astype(np.int8), segments),
                "age": pa.array(np.round(20 + 12 * segment + rng.normal(0, 3, size)).astype(np.int16)),
                "income": pa.array(np.round(rng.gamma(4, 500, size), -1).astype(np.float32)),
                "reward": pa.array(np.round(rng.gamma(2, scale[arm, segment]), 2).astype(np.float32)),
            }
        )
        writer = writer or pq.ParquetWriter(path, table.schema, compression="zstd")
        writer.write_table(table, row_group_size=PIECE)
    assert writer is not None
    writer.close()


def measure(path: Path, way: list[str]) -> tuple[float, float]:
    """Seconds and peak megabytes of one fit, in a process of its own."""
    code = "import json, resource, sys; from headwater.cli import main\ntry:\n    main()\nfinally:\n"
    code += "    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)"
    words = [str(path), "--arm", "arm", "--reward", "reward", *way, "--output", str(path.with_suffix(".toml")), "--json"]
    start = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code, "fit", *words], capture_output=True, text=True, check=True)
    seconds = time.perf_counter() - start
    assert len(json.loads(done.stdout)["arms"]) == 20
    unit = 1 if sys.platform == "darwin" else 1024
    return seconds, int(done.stderr.split()[-1]) * unit / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="*", default=[10**6, 10**7, 10**8])
    parser.add_argument("--dry", action="store_true", help="print only")
    options = parser.parse_args()
    heads = "".join(f" {way} |" for way in WAYS)
    lines = [f"| rows | file |{heads}", "|---:|---:|" + "---:|" * len(WAYS)]
    with tempfile.TemporaryDirectory() as folder:
        for rows in options.rows:
            path = Path(folder) / f"log-{rows}.parquet"
            write_log(path, rows)
            cells = ""
            for way, words in WAYS.items():
                seconds, megabytes = measure(path, words)
                print(f"{rows:,} rows, {way}: {seconds:.1f} s, {megabytes:,.0f} MB", flush=True)
                cells += f" {seconds:.1f} s, {megabytes:,.0f} MB |"
            lines.append(f"| {rows:,} | {path.stat().st_size / 1e6:,.0f} MB |{cells}")
            path.unlink()
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    lines.append(f"\nTime and peak memory of the whole process, on {cores} cores.")
    print("\n".join(lines))
    if not options.dry:
        head, rest = PAGE.read_text(encoding="utf-8").split("<!-- timings -->\n", 1)
        tail = rest.split("<!-- end of timings -->", 1)[1]
        text = "\n".join(lines)
        PAGE.write_text(f"{head}<!-- timings -->\n{text}\n<!-- end of timings -->{tail}", encoding="utf-8")


if __name__ == "__main__":
    main()
