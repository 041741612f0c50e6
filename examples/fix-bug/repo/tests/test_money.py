import unittest

from billsplit.money import to_cents, to_text


class MoneyTest(unittest.TestCase):
    def test_text_and_cents_agree(self):
        for text, cents in (("0.00", 0), ("0.07", 7), ("12.50", 1250)):
            self.assertEqual(to_cents(text), cents)
            self.assertEqual(to_text(cents), text)

    def test_other_text_is_refused(self):
        for text in ("", "12", "12.5", "-1.00", "1,00"):
            with self.assertRaises(ValueError):
                to_cents(text)
