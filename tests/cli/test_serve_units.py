"""The units for systemd: what they allow, and how long they wait, is what serve needs."""
import configparser
import re
import shutil
import subprocess
import unittest

from serve_case import SERVE

UNITS = ["src/app/serve/systemd/tern-serve.service", "src/app/serve/systemd/tern-serve-hardened.service"]


def service(path):
    unit = configparser.ConfigParser(interpolation=None, strict=False)
    unit.optionxform = str
    unit.read(path)
    return unit["Service"]


def calls(name):
    """The system calls of a group, or the call itself."""
    if not name.startswith("@"):
        return {name}
    text = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True).stdout
    lines = [line.strip() for line in text.splitlines()[1:]]
    return set().union(*(calls(line) for line in lines if line and not line.startswith("#")))


class Units(unittest.TestCase):
    def test_the_sandbox_may_be_entered(self):
        """Of systemd 252, @system-service has no seccomp, and then serve would go on without its own sandbox."""
        if not shutil.which("systemd-analyze"):
            self.skipTest("there is no systemd-analyze")
        allowed = set().union(*map(calls, service(UNITS[1])["SystemCallFilter"].split()))
        self.assertEqual({"seccomp", "prctl"} - allowed, set())

    def test_the_end_may_save(self):
        """After the drain and what follows it: a quarter of 256 GiB, at 200 MB a second."""
        help_text = subprocess.run([SERVE, "--help"], capture_output=True, text=True, check=True).stdout
        drain = int(re.search(r"--drain-seconds [^;]*; default (\d+)", help_text)[1])
        for path in UNITS:
            with self.subTest(path):
                value = re.fullmatch(r"(\d+)(min)?", service(path)["TimeoutStopSec"])
                self.assertGreater(int(value[1]) * (60 if value[2] else 1), drain + 4 + 64 * 1024**3 / 200e6)


if __name__ == "__main__":
    unittest.main()
