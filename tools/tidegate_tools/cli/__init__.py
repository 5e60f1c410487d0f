"""The command `tidegate`, the way in for whoever sits at a shell.

Each command is one module, and `program.COMMANDS` lists them all. This module only finds out whether what the
command is built on is installed at all, so that a bare `pip install tidegate` answers with a sentence.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the entry point `tidegate`.

    Args:
        arguments: the command line without the program's name; by default that of this process.

    Returns:
        The exit code, a value of `exits.ExitCode`.
    """
    try:
        from tidegate_tools.cli.program import run

        return run(sys.argv[1:] if arguments is None else arguments)
    except KeyboardInterrupt:  # while modules are being read
        return 130
    except ModuleNotFoundError as error:
        if error.name != "click":
            raise
        print("tidegate: click is not installed: pip install 'tidegate[cli]'", file=sys.stderr)
        return 1
