"""Two hosts, each a network namespace with a name of its own, and the cable between them is cut."""
# run-tests: waits

import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

from machines_case import ENVIRONMENT, MPIRUN, WHY
from test_machines_failures import FABLE, PROGRAM, QUIET

HOSTS = [f"tern{os.getpid()}{side}" for side in "ab"]
ADDRESSES = "10.231.77.1", "10.231.77.2"
NETWORK = "10.231.77.0/24"
# What MACHINES.md gives mpirun
NOTICES = {f"OMPI_MCA_oob_tcp_keepalive_{name}": n for name, n in (("time", "2"), ("intvl", "1"), ("probes", "2"))}


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def pids(host: str) -> list[int]:
    return [int(word) for word in ip("netns", "pids", host).split()]


def why_not() -> str | None:
    """Why there are no such hosts here, or None."""
    if WHY:
        return WHY
    if "Open MPI" not in subprocess.run([MPIRUN, "--version"], capture_output=True, text=True).stdout:
        return "the hosts are started as Open MPI starts them"
    try:
        ip("netns", "add", HOSTS[0])
        ip("netns", "del", HOSTS[0])
        subprocess.run(["unshare", "-u", "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return "no network namespaces here: root makes them, with ip of iproute2"
    return None


CANNOT = why_not()


@unittest.skipIf(CANNOT, CANNOT)
class Hosts(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for host in HOSTS:
            ip("netns", "add", host)
            self.addCleanup(self.remove, host)
        ip("link", "add", "ta", "netns", HOSTS[0], "type", "veth", "peer", "name", "tb", "netns", HOSTS[1])
        for host, address, end in zip(HOSTS, ADDRESSES, ("ta", "tb"), strict=True):
            ip("-n", host, "addr", "add", f"{address}/24", "dev", end)
            for name in end, "lo":
                ip("-n", host, "link", "set", name, "up")
        self.agent = self.folder / "agent"  # in place of ssh: HOST COMMAND...
        self.agent.write_text(f'#!/bin/sh\nshift\nexec ip netns exec {HOSTS[1]} unshare -u sh -c "hostname {HOSTS[1]}; $*"\n')
        self.agent.chmod(0o755)

    def remove(self, host: str) -> None:
        for pid in pids(host):
            os.kill(pid, signal.SIGKILL)
        ip("netns", "del", host)

    def start(self, *more: str, **environment: str) -> subprocess.Popen:
        line = ["ip", "netns", "exec", HOSTS[0], "unshare", "-u", "sh", "-c", f'hostname {HOSTS[0]}; exec "$0" "$@"',
                MPIRUN, "-n", "2", "-H", ",".join(f"{a}:1" for a in ADDRESSES), "--map-by", "node", "--bind-to", "none",
                "--mca", "plm_rsh_agent", str(self.agent), "--mca", "btl", "tcp,self",
                "--mca", "btl_tcp_if_include", NETWORK, "--mca", "oob_tcp_if_include", NETWORK,
                PROGRAM, FABLE, "Once", "-t", "1", "--temp", "0", *more]  # fmt: skip
        self.errors = (self.folder / "errors").open("wb")
        self.addCleanup(self.errors.close)
        job = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=self.errors, env={**ENVIRONMENT, **environment})
        self.addCleanup(job.wait)
        self.addCleanup(job.stdout.close)
        self.addCleanup(job.kill)
        return job

    def cut_while_it_writes(self, **environment: str) -> subprocess.Popen:
        job = self.start("-n", "1000000", "-c", "64", "--context-shift", "--ignore-eos", "-q", **environment)
        self.assertTrue(job.stdout.read(40))
        ip("-n", HOSTS[1], "link", "set", "tb", "down")
        return job

    def alive(self) -> list[str]:
        """Command lines of what runs on the hosts"""
        found = []
        for host in HOSTS:
            for pid in pids(host):
                try:
                    found.append(Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " "))
                except OSError:
                    pass
        return found

    def runs(self) -> list[str]:
        return [line for line in self.alive() if line.startswith(PROGRAM)]

    def within(self, seconds: float, gone) -> None:
        end = time.monotonic() + seconds
        while (left := gone()) and time.monotonic() < end:
            time.sleep(0.1)
        self.assertEqual(left, [])

    def test_bits(self):
        job = self.start("-n", "20", "-q", "--fingerprint")
        text, code = job.stdout.read(), job.wait(60)
        alone = subprocess.run([PROGRAM, FABLE, "Once", "-n", "20", "--fingerprint", *QUIET], capture_output=True)
        self.assertEqual((text, code), (alone.stdout, 0))
        self.assertIn(alone.stderr.strip(), (self.folder / "errors").read_bytes())

    def test_cut(self):
        """As MACHINES.md tells: mpirun ends, and with it what runs on both hosts."""
        job = self.cut_while_it_writes(**NOTICES)
        self.within(10, self.alive)
        self.assertNotEqual(job.wait(1), 0)

    def test_cut_unnoticed_by_mpirun(self):
        """The program ends by itself on both hosts, and says why."""
        self.cut_while_it_writes()
        self.within(10, self.runs)
        said = (self.folder / "errors").read_text()
        self.assertEqual(len(re.findall(rf"^run: {HOSTS[1]} \(rank 1\) has not been heard of for 5 s", said, re.M)), 1, said)


if __name__ == "__main__":
    unittest.main()
