import unittest

from billsplit.splitting import split


class SplittingTest(unittest.TestCase):
    def test_even_bill(self):
        self.assertEqual(split(900, 3), [300, 300, 300])

    def test_no_cent_is_lost(self):
        self.assertEqual(sum(split(1000, 3)), 1000)

    def test_nobody_pays_more_than_a_cent_above_another(self):
        shares = split(1000, 7)
        self.assertLessEqual(max(shares) - min(shares), 1, f"unfair shares {shares}")

    def test_nobody_is_an_error(self):
        with self.assertRaises(ValueError):
            split(1000, 0)
