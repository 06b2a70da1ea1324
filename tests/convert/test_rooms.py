"""The rooms of tools/tern: each module imports its own room and those before it in the list of its package."""

import ast
import re
import unittest
from pathlib import Path

TOOLS = Path(__file__).resolve().parents[2] / "tools"


def listed(package: Path) -> list[str]:
    """The names that the docstring of a package lists, in order."""
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    return re.findall(r"^(\w+)(?:\.py|/) +\S", text, re.M)


def imports(path: Path):
    """Dotted names of what a module imports from tern, wherever in it."""
    here = path.relative_to(TOOLS).with_suffix("").parts
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = [*here[: -node.level], *filter(None, (node.module or "").split("."))]
            for name in node.names:
                yield tuple(base) if node.module else (*base, name.name)


class Rooms(unittest.TestCase):
    def hold(self, package: Path) -> None:
        order, root = listed(package), package.relative_to(TOOLS).parts
        there = {p.stem for p in package.iterdir() if p.suffix == ".py" or (p / "__init__.py").exists()} - {"__init__"}
        self.assertEqual(set(order), there)
        for path in package.rglob("*.py"):
            room = path.relative_to(package).with_suffix("").parts[0]
            for name in imports(path):
                if name[: len(root)] == root and room != "__init__":
                    to = name[len(root)]
                    self.assertLessEqual(order.index(to), order.index(room), f"{path} imports {'.'.join(name)}")

    def test_package(self):
        self.hold(TOOLS / "tern")

    def test_convert(self):
        self.hold(TOOLS / "tern" / "convert")

    def test_every_room_says_what_it_does(self):
        for folder in sorted({p.parent for p in (TOOLS / "tern").rglob("*.py")}):
            self.assertRegex(ast.get_docstring(ast.parse((folder / "__init__.py").read_text())), r"(?s)In: .*\bOut:", folder)


if __name__ == "__main__":
    unittest.main()
