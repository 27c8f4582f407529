"""The command line called in this process."""

import json

from typer.testing import CliRunner

from sulq.cli import app


def run(*arguments, code=0, **options):
    """A command that ends with this code; what it did not expect is raised."""
    result = CliRunner().invoke(app, [str(a) for a in arguments], **options)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def run_json(*arguments, code=0):
    """What a command says as JSON."""
    return json.loads(run(*arguments, "--json", code=code).stdout)
