import unittest
from pathlib import Path

from slug import slug

SPEC = Path(__file__).parents[2] / "spec" / "slugs.tsv"


class SpecificationTest(unittest.TestCase):
    def test_every_line(self):
        for line in SPEC.read_text(encoding="utf-8").splitlines():
            title, _, expected = line.partition("\t")
            with self.subTest(title=title):
                self.assertEqual(slug(title), expected)
