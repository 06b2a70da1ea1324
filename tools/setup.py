"""Builds the wheel of the package tern: its modules, and beside them in tern/native what `make package` builds.

    pip install ./tools              in a clone, with gcc and make
    pip wheel --no-deps ./tools      writes the wheel, for machines that have neither

Nothing is written beside the sources: objects and metadata go into a folder that is removed. BUILD names a folder of objects to use
instead, as for make.
"""

import atexit
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from setuptools import Distribution, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

ROOT = Path(__file__).resolve().parent.parent
ONLY_IN_A_CLONE = {"environment", "plot", "regroup", "script", "verify"}  # modules that the scripts alone need
scratch = tempfile.mkdtemp()
atexit.register(shutil.rmtree, scratch, ignore_errors=True)


class Native(Distribution):
    """What is installed where machine code belongs."""

    def has_ext_modules(self):
        return True


class Modules(build_py):
    """The modules, and the library and programs."""

    def find_package_modules(self, package, package_dir):
        found = super().find_package_modules(package, package_dir)
        return [module for module in found if package != "tern" or module[1] not in ONLY_IN_A_CLONE]

    def run(self):
        super().run()
        if self.editable_mode:  # it finds what `make` built
            return
        if not (ROOT / "Makefile").exists():
            sys.exit("setup.py: there is no tern around this folder; run `pip install ./tools` in a clone")
        build = ROOT / os.environ.get("BUILD", scratch)
        jobs = len(os.sched_getaffinity(0))
        try:
            subprocess.run(["make", "-s", f"-j{jobs}", "-C", ROOT, f"BUILD={build}", "package"], check=True)
        except OSError as e:
            sys.exit(f"setup.py: cannot run make ({e.strerror}); run `apt-get install gcc make` as root")
        except subprocess.CalledProcessError:
            sys.exit("setup.py: `make` failed (see above); run `apt-get install gcc make` as root")
        shutil.copytree(build / "package", Path(self.build_lib, "tern", "native"), dirs_exist_ok=True)


class Wheel(bdist_wheel):
    """One wheel for every Python, since ctypes loads the library, and for every glibc that has its symbols."""

    def get_tag(self):
        files = Path(self.get_finalized_command("build_py").build_lib, "tern", "native").glob("*")
        needs = [int(n) for file in files for n in re.findall(rb"\0GLIBC_2\.(\d+)", file.read_bytes())]
        platform = super().get_tag()[2]
        return "py3", "none", platform.replace("linux", f"manylinux_2_{max(needs)}", 1) if needs else platform


class Sources(sdist):
    """A package of sources would lack the engine, which lies outside this folder."""

    def run(self):
        sys.exit("setup.py: only wheels are built; run `pip wheel --no-deps ./tools` in a clone")


setup(
    distclass=Native,
    cmdclass={"build_py": Modules, "bdist_wheel": Wheel, "sdist": Sources},
    options={"build": {"build_base": scratch}, "egg_info": {"egg_base": scratch}},
)
