"""A model that was cut into parts: each of several machines has its own alone (tools/split.py)."""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cli_case
from machines_case import ENVIRONMENT, MPI, MPIRUN, WHY
from test_machines_failures import FABLE, PROGRAM, QUIET, ROOT, SECONDS


@unittest.skipIf(WHY, WHY)
class Parts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        self.model = self.folder / "model.bin"
        shutil.copy(FABLE, self.model)

    def cut(self, n: int, *more: str) -> list[Path]:
        subprocess.run([sys.executable, str(ROOT / "tools/split.py"), str(self.model), "-n", str(n), *more],
                       check=True, capture_output=True,
                       env={**os.environ, "MACHINES": str(MPI.resolve())})  # fmt: skip
        return [Path(f"{self.model}.part-{r + 1}-of-{n}") for r in range(n)]

    def mpirun(self, n: int, *more: str, model: Path | None = None) -> subprocess.CompletedProcess:
        line = [MPIRUN, "-n", str(n), PROGRAM, str(model or self.model), *more, "-t", "1"]
        return subprocess.run(line, capture_output=True, timeout=SECONDS, env=ENVIRONMENT)

    def refused(self, done: subprocess.CompletedProcess, code: int, text: str) -> None:
        said = [line for line in done.stderr.decode().splitlines() if line.startswith("run: ")]
        self.assertEqual((len(said), done.returncode, done.stdout), (1, code, b""), done.stderr)
        self.assertRegex(said[0], text)

    def test_bits(self):
        """Those of the whole file, mapped or copied; the shares are those of the parts."""
        for n, share in (2, ()), (3, ("--share", "3,2,1")):
            parts = self.cut(n, *share)
            self.model.rename(self.folder / "away")
            for load in "map", "copy":
                done = self.mpirun(n, "The cat sat", "-n", "50", "--fingerprint", "--load", load, *QUIET)
                self.assertIn(b"fingerprint: 5ae93e4578537da3 ", done.stderr)
            (self.folder / "away").rename(self.model)
            sizes = [part.stat().st_size for part in parts]
            self.assertLess(sum(sizes), 2 * self.model.stat().st_size)
            self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_no_shares(self):
        """As run: an empty list is a mistake, not the default."""
        command = [sys.executable, str(ROOT / "tools/split.py"), str(self.model), "-n", "2", "--share", ""]
        done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "MACHINES": str(MPI.resolve())})
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn("are not 2 whole numbers below 1000000", done.stderr)
        self.assertEqual(list(self.folder.iterdir()), [self.model])

    def test_a_build_without_mpi(self):
        part = self.cut(2)[0]
        alone = subprocess.run([cli_case.RUN, str(part), "x"], capture_output=True)
        self.refused(alone, 3, r"it holds a part \(make MPI=1 opens it\), want a model$")

    def test_check_finds_damage(self):
        parts = self.cut(2)
        self.model.unlink()
        done = self.mpirun(2, "--check")
        self.assertEqual((done.returncode, done.stdout[:3]), (0, b"ok:"), done.stderr)
        content = bytearray(parts[1].read_bytes())
        content[-1000] ^= 1
        parts[1].write_bytes(content)
        self.refused(self.mpirun(2, "--check"), 3, rf"{parts[1]}: the piece at byte \d+ does not have the checksum ")

    def test_a_header_that_is_damaged(self):
        parts = self.cut(2)
        self.model.unlink()
        good = parts[0].read_bytes()
        for at in 4, 24, 48, 72, 97, 130:
            bad = bytearray(good)
            bad[at] ^= 0x11
            parts[0].write_bytes(bad)
            done = self.mpirun(2, "x", "-n", "1", *QUIET)
            self.refused(done, 3, f"{parts[0]}: ")
        parts[0].write_bytes(good[:-1])
        self.refused(self.mpirun(2, "x", "-n", "1", *QUIET), 3, "its size differs from what it states")

    def test_a_part_in_the_wrong_place(self):
        parts = self.cut(2)
        self.model.unlink()
        alone = subprocess.run([PROGRAM, str(parts[0]), "x"], capture_output=True, env=ENVIRONMENT)
        self.refused(alone, 2, r"model.bin.part-1-of-2 is part 1 of 2 of a model: 2 machines open them")
        self.refused(self.mpirun(3, "x", model=parts[0]), 2, "is part 1 of 2 of a model, here is machine 1 of 3$")
        self.refused(self.mpirun(2, "x", "--share", "5,1"), 3, "it was cut for the shares 1,1 or by another version")
        self.refused(self.mpirun(2, "x", "--share", "measured"), 2, "was cut for its shares: they cannot be measured")
        parts[1].write_bytes(parts[0].read_bytes())
        self.refused(self.mpirun(2, "x"), 2, "is part 1 of 2 of a model, here is machine 2 of 2$")
        parts[1].unlink()
        self.refused(self.mpirun(2, "x"), 4, f"cannot open: there is no such file, nor its part for this machine, {parts[1]}$")

    def test_parts_of_two_models(self):
        parts = self.cut(2)
        other = self.folder / "other.bin"
        cli_case.write_model(other, 512)
        self.model = other
        foreign = self.cut(2)[1]
        parts[1].write_bytes(foreign.read_bytes())
        self.model = self.folder / "model.bin"
        self.model.unlink()
        self.refused(self.mpirun(2, "x"), 3, r"has another model file \(content id ")


if __name__ == "__main__":
    unittest.main()
