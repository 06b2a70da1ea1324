"""The notebooks in tools/notebooks: their cells run, their asserts hold, and they are stored without outputs.

Cells run as plain Python. Where nbclient and ipykernel are installed (tools/requirements-notebooks.txt), Jupyter's own runner runs
them, too.
"""

import ast
import contextlib
import importlib.util
import io
import json
import os
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "tools/notebooks").glob("*.ipynb"))
os.environ["TERN_LIBRARY"] = str(ROOT / os.environ.get("BUILD", "build") / "libtern.so")


def show(value) -> None:
    """What Jupyter does with the value of a cell's last line"""
    if value is not None:
        assert repr(value)
        assert getattr(value, "_repr_html_", str)() is not None


def run(code: str, names: dict) -> None:
    """A cell: its statements, then its last line, if that is an expression, is shown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    if last:
        show(eval(compile(ast.Expression(last.value), "<cell>", "eval"), names))


class Notebooks(unittest.TestCase):
    def test_cells_run(self):
        self.assertTrue(NOTEBOOKS)
        for path in NOTEBOOKS:
            names = {"__name__": "__main__"}
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(path.parent)  # as Jupyter does
            with contextlib.redirect_stdout(io.StringIO()):
                for cell in json.loads(path.read_text())["cells"]:
                    if cell["cell_type"] == "code":
                        with self.subTest(path.name, cell=cell["id"]):
                            run("".join(cell["source"]), names)

    def test_stored_without_outputs(self):
        for path in NOTEBOOKS:
            for cell in json.loads(path.read_text())["cells"]:
                self.assertFalse(cell.get("outputs") or cell.get("execution_count"), path)

    @unittest.skipUnless(importlib.util.find_spec("nbclient") and importlib.util.find_spec("ipykernel"), "nbclient is not installed: make campaign runs it")
    def test_jupyter_runs_them(self):
        import nbclient
        import nbformat

        for path in NOTEBOOKS:
            notebook = nbformat.read(path, 4)
            nbformat.validate(notebook)
            nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(path.parent)}}).execute()
            shown = [output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", [])]
            self.assertTrue(any("<iframe" in data.get("text/html", "") for data in shown))


if __name__ == "__main__":
    unittest.main()
