"""What tests of several machines share: the programs of the folder MACHINES (default: BUILD-mpi), and whether mpirun starts any."""

import os
import shutil
import subprocess
from pathlib import Path

MPI = Path(os.environ.get("MACHINES") or os.environ.get("BUILD", "build") + "-mpi")
MPIRUN = os.environ.get("MPIRUN") or "mpirun"
MPICC = os.environ.get("MPICC") or "mpicc"
# More processes than processors, and as root: Open MPI wants to be told.
ENVIRONMENT = {
    **os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}  # fmt: skip


def what_is_missing() -> str | None:
    """Why nothing can be tried here, or None."""
    if not shutil.which(MPIRUN) or not os.access(MPI / "run", os.X_OK):
        return "no MPI: make MPI=1 BUILD=build-mpi machines"
    try:
        started = subprocess.run([MPIRUN, "-n", "2", "true"], capture_output=True, timeout=60, env=ENVIRONMENT)
    except subprocess.TimeoutExpired:
        return f"{MPIRUN} does not end here"
    return f"{MPIRUN} starts nothing here" if started.returncode else None


WHY = what_is_missing()
