"""Entry of `fusion`. Owns the fast path and the process's exit code, nothing else."""

import os
import sys


def main() -> None:
    """Run `fusion`; never returns."""
    arguments = sys.argv[1:]
    if arguments == ["--version"]:
        # Answered without loading the command line library: shells and editors ask this often.
        from fusiond.domain.version import PRODUCT_VERSION

        os.write(1, f"fusion {PRODUCT_VERSION}\n".encode())
        sys.exit(0)
    from fusiond.cli.failures import run_guarded

    sys.exit(run_guarded(arguments))


if __name__ == "__main__":
    main()
